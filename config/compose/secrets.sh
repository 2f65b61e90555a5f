#!/bin/sh
# Makes the passwords at the first start. Nobody has to choose them, and none stands in a file of the project.
# Each file belongs to the one user who reads it: postgres (70), the recorder (65532), Prometheus (65534), Grafana (472).
set -eu
umask 077
cd /secrets

new_password() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

give() { # file owner, content from standard input
  cat >"$1"
  chown "$2:$2" "$1"
  chmod 400 "$1"
}

if [ ! -f complete ]; then
  recorder=$(new_password)
  reader=$(new_password)
  page=$(new_password)
  new_password | give database_superuser 70
  printf %s "$recorder" | give database_recorder 70
  printf %s "$reader" | give database_reader 70
  printf %s "$page" | give database_page 70
  printf 'postgresql://recorder:%s@database:5432/market\n' "$recorder" | give database_url 65532
  printf 'postgresql://page:%s@database:5432/market\n' "$page" | give database_read_url 65532
  printf %s "$reader" | give grafana_database 472
  new_password | give grafana_admin 472
  touch complete
fi
if [ ! -f page_password ]; then
  password=$(new_password)
  printf %s "$password" | give prometheus_page 65534
  printf %s "$password" | give page_password 65532
fi
chmod 755 .

"""OpenStack Swift with its S3 interface, whole, in one process and one folder, on loopback.

python3 s3Server.py FOLDER: prints the address when it serves; ends with its standard input. Account test:tester, secret testing, may
do everything; test:guest, secret guessing, nothing. A PUT on condition that there is none yet is what Amazon's server has and the S3
interface of Swift refuses, though Swift itself knows it: here it gets through, but for buckets whose name begins with "unconditional".
"""
import os
import sys

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402
from eventlet.hubs import trampoline  # noqa: E402
from swift.common import storage_policy, utils  # noqa: E402
from swift.common.middleware.s3api import s3request  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.wsgi import SwiftHttpProtocol, loadapp  # noqa: E402

PARTS = ("account", "container", "object")

PROXY = """
[pipeline:main]
pipeline = catch_errors cache s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
paste.filter_factory = s3Server:cache
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
user_test_guest = guessing
[filter:slo]
use = egg:swift#slo
"""


class Memory(dict):
    """What a memcached would keep, as far as Swift asks for it."""

    def __bool__(self):
        return True

    def get(self, key, *_, **__):
        return dict.get(self, key)

    def set(self, key, value, **_):
        self[key] = value

    def delete(self, key, **_):
        self.pop(key, None)

    def incr(self, key, delta=1, **_):
        self[key] = (self.get(key) or 0) + delta
        return self[key]


def cache(_settings, **_):
    memory = Memory()

    def around(app):
        def serve(environ, start_response):
            environ["swift.cache"] = memory
            return app(environ, start_response)

        return serve

    return around


def allow_conditions():
    validate = s3request.S3Request._validate_headers

    def validate_others(self):
        condition = None
        if not (self.container_name or "").startswith("unconditional"):
            condition = self.environ.pop("HTTP_IF_NONE_MATCH", None)
        validate(self)
        if condition is not None:
            self.environ["HTTP_IF_NONE_MATCH"] = condition

    s3request.S3Request._validate_headers = validate_others


def write(root, name, text):
    with open(f"{root}/{name}", "w", encoding="utf8") as file:
        file.write(text)


def serve(root):
    os.makedirs(f"{root}/devices/disk")
    write(root, "swift.conf", "[swift-hash]\nswift_hash_path_suffix = test\n[storage-policy:0]\nname = one\ndefault = yes\n")
    utils.set_swift_dir(root)
    storage_policy.reload_storage_policies()
    sockets = {name: eventlet.listen(("127.0.0.1", 0)) for name in (*PARTS, "proxy")}
    common = f"""[DEFAULT]
swift_dir = {root}
devices = {root}/devices
mount_check = false
disable_fallocate = true
fallocate_reserve = 0
"""
    for name in PARTS:
        port = sockets[name].getsockname()[1]
        ring = RingBuilder(2, 1, 0)
        ring.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1.0, "ip": "127.0.0.1", "port": port, "device": "disk",
                      "replication_ip": "127.0.0.1", "replication_port": port})
        ring.rebalance()
        ring.get_ring().save(f"{root}/{name}.ring.gz")
        write(root, f"{name}.conf",
              f"{common}[pipeline:main]\npipeline = {name}-server\n[app:{name}-server]\nuse = egg:swift#{name}\n")
    write(root, "proxy.conf", common + PROXY)
    allow_conditions()
    for name, socket in sockets.items():
        app = loadapp(f"{root}/{name}.conf", global_conf={"log_name": name})
        eventlet.spawn(wsgi.server, socket, app, utils.NullLogger(), protocol=SwiftHttpProtocol,
                       capitalize_response_headers=False, max_size=1024)
    print(f"http://127.0.0.1:{sockets['proxy'].getsockname()[1]}", flush=True)
    trampoline(0, read=True)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])

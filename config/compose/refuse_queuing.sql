-- Refuses statements that ask for a lock on a table before the server looks at their rights. Waiting for that lock is enough to
-- stop all who write to the table, and on a table of the catalog all who log in. Refuses statements, too, that change the
-- catalog without any right: each savepoint before one keeps a lock, until the server has no room for more. A superuser runs this,
-- once. As parts of an extension of the server, the trigger and its function are in no dump, which the owner of the database could
-- not restore.

create function pg_catalog.refuse_queuing() returns event_trigger language plpgsql as $$
begin
  if not pg_has_role(session_user, (select datdba from pg_database where datname = current_database()), 'usage') then
    raise insufficient_privilege using message = 'permission denied: ' || tg_tag || ' needs the owner of the database';
  end if;
end
$$;

create event trigger refuse_queuing on ddl_command_start
  when tag in ('CREATE RULE', 'CREATE TRIGGER', 'ALTER TRIGGER', 'ALTER INDEX', 'ALTER MATERIALIZED VIEW', 'COMMENT',
    'GRANT', 'REVOKE', 'ALTER DEFAULT PRIVILEGES', 'DROP OWNED')
  execute function pg_catalog.refuse_queuing();

alter extension plpgsql add function pg_catalog.refuse_queuing();

alter extension plpgsql add event trigger refuse_queuing;

{#- The place of a change in the log of its database, from `m.source`; NULL where it does not say it in whole. -#}
{%- macro _debezium_place() -%}
case
    -- PostgreSQL sends transactions in the order of their commits: the last commit before the change, and the change.
    when m.source.sequence rlike '^\\[(null|"[0-9]{1,20}"), *"[0-9]{1,20}"\\]$' then concat(
        lpad(regexp_extract(m.source.sequence, '^\\["([0-9]+)', 1), 20, '0'),
        lpad(regexp_extract(m.source.sequence, '([0-9]+)"\\]$', 1), 20, '0')
    )
    -- MySQL and MariaDB: mysql-bin.000003, the position in it, the row in the event.
    when concat(m.source.file, ',', m.source.pos, ',', coalesce(m.source.row, '0'))
        rlike '[.][0-9]{1,10},[0-9]{1,20},[0-9]{1,10}$' then concat(
        lpad(regexp_extract(m.source.file, '([0-9]+)$', 1), 10, '0'),
        lpad(m.source.pos, 20, '0'),
        lpad(coalesce(m.source.row, '0'), 10, '0')
    )
    -- SQL Server.
    when concat(m.source.commit_lsn, ',', m.source.change_lsn, ',', coalesce(m.source.event_serial_no, '0'))
        rlike '^[0-9A-Fa-f:]{22},[0-9A-Fa-f:]{22},[0-9]{1,10}$' then concat(
        upper(replace(concat(m.source.commit_lsn, m.source.change_lsn), ':', '')),
        lpad(coalesce(m.source.event_serial_no, '0'), 10, '0')
    )
    -- Oracle: the number of the commit and of the change, the redo record (0x000012.00000345.0010), the row in it.
    when concat(m.source.commit_scn, ',', m.source.scn, ',', coalesce(m.source.ssn, '0'))
        rlike '^[0-9]{1,20},[0-9]{1,20},[0-9]{1,10}$' then concat(
        lpad(m.source.commit_scn, 20, '0'),
        lpad(m.source.scn, 20, '0'),
        lpad(upper(regexp_replace(coalesce(m.source.rs_id, ''), '0x|[^0-9A-Fa-f]', '')), 24, '0'),
        lpad(coalesce(m.source.ssn, '0'), 10, '0')
    )
end
{%- endmacro -%}

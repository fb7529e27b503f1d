{#- The place of a change in the log of its database, from the fields of `source`; NULL if they do not give all of
    it. -#}
{%- macro _debezium_place() -%}
{%- set binlog = "concat_ws(',', f.file, f.pos, coalesce(f.row, '0'))" -%}
{%- set lsn = "concat_ws(',', f.commit_lsn, f.change_lsn, coalesce(f.event_serial_no, '0'))" -%}
{%- set scn = "concat_ws(',', f.commit_scn, f.scn, coalesce(f.ssn, '0'))" -%}
{%- set redo_record = "upper(regexp_replace(coalesce(f.rs_id, ''), '0x|[^0-9A-Fa-f]', ''))" -%}
case
    -- Transactions come in the order of their commits, so the last commit before the change goes first. A new connector
    -- knows none.
    when f.sequence rlike '^\\[(null|"[0-9]{1,20}"), *"[0-9]{1,20}"\\]$' then concat(
        lpad(regexp_extract(f.sequence, '^\\[(?:null, *)?"([0-9]+)', 1), 20, '0'),
        lpad(regexp_extract(f.sequence, '([0-9]+)"\\]$', 1), 20, '0')
    )
    when {{ binlog }} rlike '[.][0-9]{1,10},[0-9]{1,20},[0-9]{1,10}$'
        then concat(
            lpad(regexp_extract(f.file, '([0-9]+)$', 1), 10, '0'), lpad(f.pos, 20, '0'), lpad(coalesce(f.row, '0'), 10, '0')
        )
    when {{ lsn }} rlike '^[0-9A-Fa-f:]{22},[0-9A-Fa-f:]{22},[0-9]{1,10}$'
        then concat(upper(replace(concat(f.commit_lsn, f.change_lsn), ':', '')), lpad(coalesce(f.event_serial_no, '0'), 10, '0'))
    when {{ scn }} rlike '^[0-9]{1,20},[0-9]{1,20},[0-9]{1,10}$'
        then concat(
            lpad(f.commit_scn, 20, '0'), lpad(f.scn, 20, '0'), lpad({{ redo_record }}, 24, '0'),
            lpad(coalesce(f.ssn, '0'), 10, '0')
        )
end
{%- endmacro -%}

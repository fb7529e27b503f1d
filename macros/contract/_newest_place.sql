{#- The first characters of the newest change_seq that earlier runs took in, if any. Places after `at_most` do not
    count. Iceberg's metadata tells whether any change is rejected. If none is and the metadata holds whole
    change_seqs, it also gives the newest. -#}
{%- macro _newest_place(width, at_most=none) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set rejected = afterimage._value('select count(reject_reason) from ' ~ this) -%}
    {%- set query -%}
        select left(max(change_seq), {{ width }}) from {{ this }}
        {{ 'where reject_reason is null' if rejected > 0 }}
    {%- endset -%}
    {%- set newest = afterimage._value(query) or none -%}
    {%- if newest is none or at_most is none or newest <= at_most -%}
        {{ return(newest) }}
    {%- endif -%}
    {%- set query -%}
        select left(max(change_seq), {{ width }}) from {{ this }}
        where reject_reason is null and change_seq <= '{{ at_most }}'
    {%- endset -%}
    {{ return(afterimage._value(query) or none) }}
{%- endmacro -%}

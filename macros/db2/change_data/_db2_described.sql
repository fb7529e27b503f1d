{#- The CTE `described`, the rows that `_finish` takes. -#}
{%- macro _db2_described(condensed) -%}
described as (

    select
        *,
        commit_place as transaction_id,
        nullif(array_compact(array(
            if(
                commit_place is not null and changed_at is null,
                'changed_at is unknown: neither IBMSNAP_LOGMARKER nor IBMSNAP_UOW has it',
                null
            ),
            if(
                row_kind in ('insert', 'load') and has_before_values,
                'an inserted row has values in before-image columns, which may be data columns',
                null
            ),
            if(lost_before, 'the before-image has no key and is left out', null),
            {%- if condensed %}
            if(reject_reason is null, 'the table is condensed: earlier changes of this key are unknown', null),
            {%- endif %}
            key_change_warning
        )), cast(array() as array<string>)) as warnings

    from found_changes

)
{%- endmacro -%}

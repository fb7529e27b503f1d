{#- Nothing in the stream needs attention: no change was rejected (no_rejected_changes), and none is missing before
    another (before_images_agree, if `unique_key` is given). `expected_rejects` are patterns of reject reasons that are
    no finding. One row per finding. -#}
{% test change_stream_is_clear(model, unique_key=none, columns=none, expected_rejects=none) %}
    {%- do afterimage._check_names('change_stream_is_clear', 'unique_key', unique_key) -%}
    {%- if afterimage._needs_placeholder([model]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif %}

select
    concat('rejected: ', reject_reason) as finding,
    change_id,
    change_seq,
    operation,
    cast(null as string) as source_key

from {{ model }}
where
    reject_reason <> 'erased'
    {%- for pattern in ([expected_rejects] if expected_rejects is string else expected_rejects or []) %}
    and reject_reason not like {{ afterimage._literal(pattern) }}
    {%- endfor %}
{%- if unique_key %}
union all
select
    concat_ws('; ', concat('the row was another one before: ', array_join(disagreements, ', ')), hint) as finding,
    cast(null as string) as change_id,
    change_seq,
    operation,
    to_json(struct(
        {%- for key in unique_key -%}
        {{ afterimage._finding_name(key) }} as {{ afterimage._quote(key) }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    )) as source_key

from ({{ afterimage.test_before_images_agree(model, unique_key, columns) }}) as disagreeing
{%- endif %}

{% endtest %}

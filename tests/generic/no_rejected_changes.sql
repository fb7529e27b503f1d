{#- No change of the stream was set aside because it could not be understood. -#}
{% test no_rejected_changes(model) %}

select
    change_id,
    change_seq,
    operation,
    reject_reason

from {{ model }}
where reject_reason is not null

{% endtest %}

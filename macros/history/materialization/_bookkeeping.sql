{#- What the table remembers of its runs, as table properties: which changes it has taken in, by which options it was
    cut, and the snapshot that this was said of. Properties are set after the versions are written: a run that is killed
    in between is done again by the next one, to the same result. -#}
{%- macro _bookkeeping(options, columns, taken_in, pending) -%}
    {%- set remembered = afterimage._remember(taken_in, pending) -%}
    {{ return({
        'afterimage.snapshot': '',
        'afterimage.taken_in': afterimage._as_property(tojson(remembered)),
        'afterimage.options': afterimage._as_property(afterimage._options_text(options)),
    }) }}
{%- endmacro -%}

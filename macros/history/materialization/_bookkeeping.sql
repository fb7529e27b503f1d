{#- What the table remembers of its runs in its properties: the changes that it has taken in, the options that it
    was built with, and the snapshot for which that holds. Properties are set after the versions are written. If a
    run is killed in between, the next one repeats it with the same result. -#}
{%- macro _bookkeeping(options, remembered) -%}
    {{ return({
        'afterimage.snapshot': '',
        'afterimage.taken_in': afterimage._as_property(tojson(remembered)),
        'afterimage.options': afterimage._as_property(afterimage._options_text(options)),
    }) }}
{%- endmacro -%}

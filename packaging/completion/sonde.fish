# Completion of sonde for fish. Subcommands and flags are read from `sonde --help` and `sonde SUBCOMMAND --help`, so they are always current.

function __sonde_verbs
    sonde --help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)$' '$1\t$2'
end

# The subcommands of a subcommand, from its --help.
function __sonde_inner_verbs
    set -l words (commandline -opc)
    sonde $words[2] --help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)$' '$1\t$2'
end

function __sonde_flags
    set -l words (commandline -opc)
    test (count $words) -ge 2; and not contains -- -- $words; or return
    set -l inner
    test (count $words) -ge 3; and test -n "$(__sonde_inner_verbs)"; and set inner $words[3]
    sonde $words[2] $inner --help 2>/dev/null | string replace -rf '^ *(?:-[a-zA-Z], )?(--[a-z-]+)( [A-Z][A-Z:=.]*)?  +(.*)$' '$1\t$3'
end

complete -c sonde -n 'test (count (commandline -opc)) -eq 1' -f -a '(__sonde_verbs)'
complete -c sonde -n 'test (count (commandline -opc)) -eq 2' -a '(__sonde_inner_verbs)'
complete -c sonde -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__sonde_flags)'
complete -c sonde -n 'contains -- (commandline -opc)[-1] -p --pid' -f -a '(__fish_complete_pids)'
# The text after "Events:": event names; one that ends in a colon is a prefix.
complete -c sonde -n 'contains -- (commandline -opc)[-1] --event' -f -a '(sonde record --help 2>/dev/null | sed -n "/^Events:/,/\\.\$/{s/^Events://;s/[.,]/ /g;s/:[A-Z\/][^ ]*/:/g;p}" | string split -n " ")'

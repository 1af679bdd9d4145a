# Debug information for the function outer: an origin that is its own origin by way of another one, a sibling that is its own sibling.
        .section .debug_abbrev,"",@progbits
        .uleb128 1, 0x11
        .byte 1
        .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
        .uleb128 2, 0x2e
        .byte 1
        .uleb128 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0, 0
        .uleb128 3, 0x1d
        .byte 0
        .uleb128 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0x01, 0x13, 0, 0
        .byte 0
        .section .debug_info,"",@progbits
start:  .long end - begin
begin:  .short 4
        .long .debug_abbrev
        .byte 8
        .uleb128 1
        .quad outer, 4096
function:
        .uleb128 2
        .quad outer, 4096
        .long inlined - start
inlined:
        .uleb128 3
        .quad outer, 4096
        .long function - start, inlined - start
        .byte 0, 0
end:

/* A process's memory with HotSpot's description of its layout: an image whose tables follow the words of the symbols,
 * and the strings they point to. A layout that is accepted names fields that the BPF side can read. */
#include "resolve/interpreter/hotspot_layout.h"

#include <stdlib.h>
#include <string.h>

#define BIAS        0x7f0000000000ULL
#define DATA_VADDR  0x1000000ULL
#define TEXTS_VADDR 0x800000ULL
#define TEXTS_BYTES 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hotspot_file file = {.data_vaddr = DATA_VADDR};
    struct hotspot_layout layout;
    char *texts = calloc(1, TEXTS_BYTES + 1);
    if (!texts)
        abort();
    const size_t text_bytes = size < TEXTS_BYTES ? size : TEXTS_BYTES;
    memcpy(texts, data, text_bytes);
    file.data_bytes = size - text_bytes;
    for (size_t i = 0; i < HOTSPOT_SYMBOL_COUNT; i++)
        file.symbols[i] = DATA_VADDR + 8 * i;
    const struct hotspot_image image = {&file, BIAS, data + text_bytes, texts, text_bytes, TEXTS_VADDR};
    if (hotspot_layout_read(&image, &layout) == 0 &&
        (layout.blob_bytes > 248 || layout.blob_method > 248 || layout.blob_frame > 248 || layout.const_name > 56 || !layout.heaps || layout.block_bytes > 24))
        abort();
    free(texts);
    return 0;
}

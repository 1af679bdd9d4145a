/* What leaves the library; everything else is compiled hidden. The versions of the symbols are in
 * libsonde.map. */
#pragma once

#define SONDE_EXPORT __attribute__((visibility("default")))

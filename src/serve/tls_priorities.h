/* What this program accepts as a server of TLS, for GnuTLS: TLS 1.2 and 1.3, and of 1.2 only ciphers that authenticate,
 * with keys that are new for each connection. */
#pragma once

#define TLS_PRIORITIES                                                                                                 \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305"

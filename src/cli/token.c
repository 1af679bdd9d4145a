/* `sonde token new`: makes a token that may read the page over the network. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cli/standard_output.h"
#include "cli/subcommands.h"
#include "serve/tokens.h"

#include <errno.h>
#include <string.h>

static bool is_one_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static int run_token(int argc, char **argv)
{
    char token[TOKEN_BYTES], line[TOKEN_LINE_BYTES];
    const struct option_spec specs[] = {{0}};
    int operands, r = options_parse(&subcommand_token, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    if (operands < 1 || operands > 2 || strcmp(argv[1], "new") != 0) {
        log_error("token: use it as: sonde token %s", subcommand_token.synopsis);
        return -EINVAL;
    }
    const char *comment = operands == 2 ? argv[2] : "";
    if (!is_one_line(comment) || strlen(comment) > 512) {
        log_error("token: the comment has to be one line of at most 512 bytes");
        return -EINVAL;
    }
    r = tokens_make(token, line);
    if (r < 0)
        return log_errno(r, "token: no random numbers");
    _cleanup_buf_ struct buf out = {0};
    buf_printf(&out,
               "The token, which is not kept anywhere (for clients: SONDE_TOKEN, or the password in a browser):\n  %s\n"
               "Its line for the file that page.token_file names:\n  %s%s%s\n",
               token, line, *comment ? " " : "", comment);
    return standard_output_write("token", &out);
}

const struct subcommand subcommand_token = {
    .name = "token",
    .synopsis = "new [COMMENT]",
    .summary = "Make a token for clients that read the page over the network",
    .details =
        "Prints a random token, once, and the line with its hash for the file that page.token_file names. The comment says whose\n"
        "token it is; deleting the line revokes it.",
    .run = run_token,
};

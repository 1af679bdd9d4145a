/* `sonde token new`: makes a token for clients of the page or of `sonde server`. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/standard_output.h"
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
    const char *scope = "read", *tenant = "";
    const struct option_spec specs[] = {
        {0, "scope", OPTION_TEXT, &scope, "SCOPE",
         "read (the default), write, agent, capture or admin: what the token is for", 0, 0},
        {0, "tenant", OPTION_TEXT, &tenant, "NAME", "the tenant of sonde server whose data it is for", 0, 0},
        {0},
    };
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
    if (!token_scope_of(scope)) {
        log_error("token: --scope is read, write, agent, capture or admin");
        return -EINVAL;
    }
    if (*tenant && !tenant_name_is_valid(tenant)) {
        log_error("token: --tenant is a name of at most 32 lower-case letters, digits, - and _");
        return -EINVAL;
    }
    if (*tenant && token_scope_of(scope) == TOKEN_ADMIN) {
        log_error("token: --tenant cannot be combined with --scope admin, which is for all tenants");
        return -EINVAL;
    }
    r = tokens_make(token_scope_of(scope), tenant, token, line);
    if (r < 0)
        return log_errno(r, "token: no random numbers");
    _cleanup_buf_ struct buf out = {0};
    buf_printf(&out,
               "The token, which is not kept anywhere (for clients: SONDE_TOKEN, or the password in a browser):\n  %s\n"
               "Its line for the file that page.token_file names, or --token-file of sonde server:\n  %s%s%s\n",
               token, line, *comment ? " " : "", comment);
    return standard_output_write("token", &out);
}

const struct subcommand subcommand_token = {
    .name = "token",
    .synopsis = "new [--scope SCOPE] [--tenant NAME] [COMMENT]",
    .summary = "Make a token for clients of the page or of sonde server",
    .details =
        "Prints a random token, once, and the line with its hash for the file that page.token_file names, or --token-file of\n"
        "sonde server. The scope read is for the page, and for SQL of a server; write is for senders of OTLP to a server; agent\n"
        "is for agents that report to it (opamp.endpoint); capture is for those who ask it for profiles of nodes; admin is all.\n"
        "With --tenant, it is for the data of one tenant of a server, which no other tenant's token reaches.\n"
        "The comment says whose token it is; deleting the line revokes it.",
    .flags_anywhere = true,
    .run = run_token,
};

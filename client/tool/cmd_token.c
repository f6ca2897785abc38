/* cmd_token.c: tarry token add, renew, list, revoke: edits the file of principals that tarryd --tokens reads. It asks
 * no broker. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "output.h"
#include "rfc3339.h"
#include "table.h"
#include "token_store.h"
#include "tool.h"
#include "units.h"

#define PATH_SIZE 4096

static int run_add(struct tool *tool, const struct args *args);
static int run_renew(struct tool *tool, const struct args *args);
static int run_list(struct tool *tool, const struct args *args);
static int run_revoke(struct tool *tool, const struct args *args);

#define OPTIONS_FILE                                                                                                   \
    {"file", ARG_VALUE, "FILE", "file of tokens (tarryd --tokens)"}, {                                                 \
        "data", ARG_VALUE, "DIR", "data directory; its file `tokens` is the one that tarryd reads by default"          \
    }

static const struct arg_spec add_options[] = {
    {"role", ARG_MANY, "ROLE", "role of the principal, see below; may be repeated"},
    {"queue", ARG_MANY, "PREFIX", "prefix of the queue names that the principal may use; may be repeated [all]"},
    {"expires", ARG_VALUE, "WHEN", "expiry of the token: 90d, or 2027-01-31, or a time in RFC 3339 [never]"},
    {"limit", ARG_MANY, "NAME=N", "limit of the principal, see below; may be repeated [none]"},
    {"certificate", ARG_FLAG, NULL, "NAME is the name in a client certificate; no token is made"},
    OPTIONS_FILE,
    {0},
};

static const struct arg_spec renew_options[] = {
    {"expires", ARG_VALUE, "WHEN", "expiry of the new token: 90d, or 2027-01-31, or a time in RFC 3339 [never]"},
    {"former", ARG_VALUE, "DURATION", "how long the former token stays valid; 0s: it is invalid at once [7d]"},
    OPTIONS_FILE,
    {0},
};

static const struct arg_spec file_options[] = {OPTIONS_FILE, {0}};

#define X(name, bit, text) "  " #name ": " text "\n"
const struct command command_token_add = {
    .name = "token add",
    .usage = "NAME --role ROLE… [--queue PREFIX]… [--expires WHEN] [--limit NAME=N]… --file FILE",
    .summary = "add a principal, and print its token",
    .text =
        "Adds a principal to the file of tokens, and prints its token. The token is printed only once: the\n"
        "file keeps a hash of it. A broker reads the file again when it changes. Give the token to a client\n"
        "in a file that nobody else can read (TARRY_TOKEN_FILE). The broker's log records NAME with\n"
        "everything that is done with the token.\n\n"
        "Roles:\n" ACCESS_ROLES(
            X) "  none: nothing\n\n"
               "Limits: connections, sessions, producers (at the same time), rate (operations per second), bytes\n"
               "(of requests in progress), pending (tasks in its queues), queues (that it has created). By default\n"
               "there is no limit, except 256 queues for a principal with --queue.\n\n"
               "The NAME `loopback` means clients on the broker's own host that show neither token nor\n"
               "certificate. Without an entry `loopback` they may produce, consume, read and operate. `loopback`\n"
               "and names with --certificate have no token.",
    .options = add_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NAME",
    .examples =
        "tarry token add shop --role produce --role read --queue orders. --expires 90d --data /var/lib/tarry/main\n"
        "tarry token add backups --role admin --file /etc/tarry/tokens > /root/backups.token\n"
        "tarry token add worker-1.example.org --certificate --role consume --file /etc/tarry/tokens\n"
        "tarry token add loopback --role read --file /etc/tarry/tokens",
    .run = run_add,
};
#undef X

const struct command command_token_renew = {
    .name = "token renew",
    .usage = "NAME [--expires WHEN] [--former DURATION] --file FILE",
    .summary = "print a new token of a principal; the former one stays valid for a while",
    .text = "Makes a new token for a principal, and prints it. The principal keeps its roles, queues and limits.\n"
            "Both tokens are valid until the former one expires (--former), so each host of a service can get\n"
            "the new token in its own time. Meanwhile each of the two tokens has the limits for itself. The\n"
            "broker closes the connections that use the former token once now, and again when it expires.",
    .options = renew_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NAME",
    .examples = "tarry token renew shop --expires 90d --former 2d --data /var/lib/tarry/main > shop.token",
    .run = run_renew,
};

const struct command command_token_list = {
    .name = "token list",
    .usage = "--file FILE",
    .summary = "list the principals of a file of tokens",
    .text = "Lists the principals of the file of tokens: their roles, queues and limits, and when they expire.",
    .options = file_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry token list --data /var/lib/tarry/main",
    .run = run_list,
};

const struct command command_token_revoke = {
    .name = "token revoke",
    .usage = "NAME --file FILE",
    .summary = "remove a principal",
    .text = "Removes a principal from the file of tokens. The broker reads the file at once, and closes the\n"
            "connections and consumers of principals that are not in it any more. The tasks that those\n"
            "consumers hold are delivered again, as after any lost consumer.",
    .options = file_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NAME",
    .examples = "tarry token revoke shop --data /var/lib/tarry/main",
    .run = run_revoke,
};

/* Gets the path of the file of tokens. 0, or EXIT_USAGE after an error message. */
static int path_of(const struct args *args, char out[PATH_SIZE]) {
    const char *file = args_get(args, "file"), *data = args_get(args, "data");
    if ((file == NULL) == (data == NULL))
        return tool_usage(args, "missing file of tokens: give either --file FILE or --data DIR");
    int size = file != NULL ? snprintf(out, PATH_SIZE, "%s", file) : snprintf(out, PATH_SIZE, "%s/tokens", data);
    return size < PATH_SIZE ? 0 : tool_usage(args, "the file name is too long");
}

static int take_role(const struct args *args, struct access_entry *entry, const char *value, bool *out_none) {
    if (strcmp(value, "none") == 0) {
        *out_none = true;
        return 0;
    }
    unsigned role = access_role_of(value, strlen(value));
    if (role == 0) return tool_usage(args, "--role: unknown role '%s'; see 'tarry token add --help'", value);
    entry->roles |= role;
    return 0;
}

static int take_prefix(const struct args *args, struct access_entry *entry, const char *value) {
    const char *problem = access_prefix_problem(value, strlen(value));
    if (problem != NULL) return tool_usage(args, "--queue '%s': %s", value, problem);
    if (entry->prefix_count == ACCESS_PREFIXES_MAX) return tool_usage(args, "--queue may be given at most 16 times");
    if (access_entry_add_prefix(entry, value, strlen(value))) return 0;
    tool_say("out of memory");
    return EXIT_REFUSED;
}

static int take_limit(const struct args *args, struct access_entry *entry, const char *value) {
    const char *equals = strchr(value, '=');
    size_t size = equals != NULL ? (size_t)(equals - value) : strlen(value);
    enum access_limit limit = access_limit_of(value, size);
    uint64_t least, most, number;
    if (limit == LIMITS)
        return tool_usage(args, "--limit: unknown limit '%.*s'; see 'tarry token add --help'", (int)size, value);
    access_limit_range(limit, &least, &most);
    bool is_number = equals != NULL && size_parse(equals + 1, &number);
    if (!is_number || number < least || number > most)
        return tool_usage(args, "--limit %s: the number must be between %" PRIu64 " and %" PRIu64, value, least, most);
    if (entry->limits[limit] != 0) return tool_usage(args, "--limit: %.*s is given twice", (int)size, value);
    entry->limits[limit] = number;
    return 0;
}

static int take_many(const struct args *args, struct access_entry *entry, bool *out_none) {
    int status = 0;
    for (size_t i = 0; status == 0 && i < args->many_count; i++) {
        const char *option = args->many[i].option, *value = args->many[i].value;
        if (strcmp(option, "role") == 0)
            status = take_role(args, entry, value, out_none);
        else if (strcmp(option, "queue") == 0)
            status = take_prefix(args, entry, value);
        else
            status = take_limit(args, entry, value);
    }
    return status;
}

/* Parses --expires: "90d" from now, "2027-01-31", or RFC 3339. An absent option leaves *out_s untouched. */
static int take_expiry(const struct args *args, uint64_t *out_s) {
    const char *text = args_get(args, "expires");
    char midnight[RFC3339_TEXT_SIZE];
    uint64_t ms = 0;
    if (text == NULL) return 0;
    if (duration_parse(text, &ms)) {
        ms += wall_ms();
    } else {
        bool is_day = strlen(text) == sizeof "2027-01-31" - 1;
        snprintf(midnight, sizeof midnight, "%.10sT00:00:00Z", text);
        if (rfc3339_parse(is_day ? midnight : text, &ms) != NULL)
            return tool_usage(
                args,
                "--expires: '%s' is not a duration, a day or a time such as 90d, 2027-01-31 or 2027-01-31T12:00:00Z",
                text);
    }
    if (ms <= wall_ms()) return tool_usage(args, "--expires '%s' is not in the future", text);
    *out_s = (ms + 999) / 1000;
    return 0;
}

static int fill_entry(const struct args *args, struct access_entry *entry) {
    const char *name = args->positional[0];
    const char *problem = access_name_problem(name, strlen(name));
    bool is_loopback = strcmp(name, "loopback") == 0, says_none = false;
    if (problem != NULL) return tool_usage(args, "'%s': %s", name, problem);
    if (strcmp(name, "owner") == 0) return tool_usage(args, "the name 'owner' is reserved for the broker");
    if (is_loopback && args_has(args, "certificate"))
        return tool_usage(args, "'loopback' cannot be the name in a certificate");
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->kind = is_loopback ? KIND_LOOPBACK : args_has(args, "certificate") ? KIND_CERTIFICATE : KIND_TOKEN;
    int status = take_many(args, entry, &says_none);
    if (status == 0) status = take_expiry(args, &entry->expires_s);
    if (status != 0) return status;
    if (says_none == (entry->roles != 0))
        return tool_usage(args,
                          says_none ? "--role none excludes other roles"
                                    : "missing --role: give at least one role for %s",
                          name);
    if (is_loopback && (entry->roles & (ROLE_admin | ROLE_peer)) != 0)
        return tool_usage(args, "loopback cannot have the roles admin and peer: they always need a token");
    return 0;
}

/* Prepares the making of a token. 0, or EXIT_REFUSED after an error message. */
static int start_random(void) {
    if (sodium_init() >= 0) return 0;
    tool_say("the system provides no random numbers");
    return EXIT_REFUSED;
}

/* Prints what happened to a principal ("added", "renewed"), and its token. */
static int print_token(const struct tool *tool, const char *result, const char *name, const char *token) {
    struct text out = {0};
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "result", result);
        out_text(&out, "name", name);
        out_text(&out, "token", token[0] != 0 ? token : NULL);
        out_line_end(&out);
    } else if (token[0] != 0) {
        text_printf(&out, "%s\n", token);
    } else {
        text_printf(&out, "%s has no token, because it needs none\n", name);
    }
    int status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

static int add(const struct tool *tool, const char *path, struct access_entry *entry) {
    char token[ACCESS_TOKEN_TEXT_SIZE] = "", message[TOKEN_FILE_MESSAGE_SIZE];
    struct token_store store;
    int status = token_store_open(&store, path, false, true);
    if (status == 0 && entry->kind == KIND_TOKEN) access_token_make(token, entry->hash);
    if (status == 0 && token_file_add(&store.file, entry, message) != 0) {
        tool_say("%s: %s; make a new token with 'tarry token renew', or remove the name with 'tarry token revoke'",
                 path, message);
        status = EXIT_REFUSED;
    } else if (status == 0) {
        entry->prefixes = NULL; /* store.file now owns the prefixes */
        status = token_store_write(&store);
    }
    if (status == 0) status = print_token(tool, "added", entry->name, token);
    sodium_memzero(token, sizeof token);
    token_store_close(&store);
    return status;
}

static int run_add(struct tool *tool, const struct args *args) {
    char path[PATH_SIZE];
    struct access_entry entry = {0};
    int status = path_of(args, path);
    if (status == 0) status = start_random();
    if (status == 0) status = fill_entry(args, &entry);
    if (status == 0) status = add(tool, path, &entry);
    free(entry.prefixes);
    return status;
}

/* ---- renew */

#define FORMER_DEFAULT_MS (7ull * 24 * 3600 * 1000)

static int renew(const struct tool *tool, const char *path, const char *name, uint64_t expires_s,
                 uint64_t former_until_s) {
    char token[ACCESS_TOKEN_TEXT_SIZE] = "", message[TOKEN_FILE_MESSAGE_SIZE];
    uint8_t hash[ACCESS_HASH_SIZE];
    struct token_store store;
    int status = token_store_open(&store, path, true, true);
    if (status == 0) access_token_make(token, hash);
    if (status == 0 &&
        token_file_renew(&store.file, name, hash, expires_s, former_until_s, wall_ms() / 1000, message) != 0) {
        tool_say("%s: %s", path, message);
        status = EXIT_REFUSED;
    }
    if (status == 0) status = token_store_write(&store);
    if (status == 0) status = print_token(tool, "renewed", name, token);
    sodium_memzero(token, sizeof token);
    token_store_close(&store);
    return status;
}

static int run_renew(struct tool *tool, const struct args *args) {
    char path[PATH_SIZE];
    uint64_t expires_s = 0;
    const char *former = args_get(args, "former");
    uint64_t former_ms = FORMER_DEFAULT_MS;
    int status = path_of(args, path);
    if (status == 0 && former != NULL && !duration_parse(former, &former_ms))
        status = tool_usage(args, "--former: '%s' is not a duration such as 7d, 12h or 0s", former);
    if (status == 0) status = take_expiry(args, &expires_s);
    if (status == 0) status = start_random();
    if (status != 0) return status;
    return renew(tool, path, args->positional[0], expires_s, (wall_ms() + former_ms) / 1000);
}

/* ---- list */

static void add_json(struct text *out, const struct access_entry *entry) {
    char roles[ROLES_TEXT_SIZE];
    const char *prefix = entry->prefixes;
    out_begin(out, '{');
    out_text(out, "name", entry->name);
    out_text(out, "kind", access_kind_name(entry->kind));
    out_text(out, "roles", roles_format(entry->roles, ",", roles));
    out_key(out, "queues");
    text_add_char(out, '[');
    for (size_t i = 0; i < entry->prefix_count; i++, prefix += strlen(prefix) + 1) {
        out_comma(out);
        out_string(out, prefix, strlen(prefix));
    }
    text_add_char(out, ']');
    if (entry->expires_s != 0)
        out_number(out, "expires_ms", entry->expires_s * 1000);
    else
        out_null(out, "expires_ms");
    out_bool(out, "expired", entry->expires_s != 0 && entry->expires_s * 1000 <= wall_ms());
    for (int i = 0; i < LIMITS; i++)
        if (entry->limits[i] != 0) out_number(out, access_limit_name((enum access_limit)i), entry->limits[i]);
    out_line_end(out);
}

static void add_row(struct table *table, const struct access_entry *entry) {
    char roles[ROLES_TEXT_SIZE];
    struct text queues = {0}, limits = {0};
    const char *prefix = entry->prefixes;
    for (size_t i = 0; i < entry->prefix_count; i++, prefix += strlen(prefix) + 1)
        text_printf(&queues, "%s%s", i > 0 ? " " : "", prefix);
    for (int i = 0; i < LIMITS; i++)
        if (entry->limits[i] != 0)
            text_printf(&limits, "%s%s=%" PRIu64, limits.size > 0 ? " " : "", access_limit_name((enum access_limit)i),
                        entry->limits[i]);
    table_cell(table, entry->name);
    table_cell(table, access_kind_name(entry->kind));
    table_cell(table, entry->roles != 0 ? roles_format(entry->roles, ",", roles) : "none");
    table_cell(table, entry->prefix_count > 0 ? text_str(&queues) : "all");
    if (entry->expires_s != 0 && entry->expires_s * 1000 <= wall_ms())
        table_cell(table, "expired");
    else
        table_cell_time(table, entry->expires_s * 1000);
    table_cell(table, limits.size > 0 ? text_str(&limits) : "-");
    text_deinit(&queues);
    text_deinit(&limits);
}

static int run_list(struct tool *tool, const struct args *args) {
    static const char *const heads[] = {"NAME", "KIND", "ROLES", "QUEUES", "EXPIRES", "LIMITS"};
    char path[PATH_SIZE];
    struct token_store store;
    struct text out = {0};
    struct table table;
    int status = path_of(args, path);
    if (status != 0) return status;
    status = token_store_open(&store, path, true, false);
    table_init(&table, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; status == 0 && i < store.file.count; i++) {
        if (tool->json)
            add_json(&out, &store.file.entries[i]);
        else
            add_row(&table, &store.file.entries[i]);
    }
    if (status == 0 && !tool->json) table_print(&table, &out);
    if (status == 0) status = output_flush(&out, EXIT_FINE);
    table_deinit(&table);
    text_deinit(&out);
    token_store_close(&store);
    return status;
}

static int run_revoke(struct tool *tool, const struct args *args) {
    char path[PATH_SIZE];
    struct token_store store;
    struct text out = {0};
    const char *name = args->positional[0];
    int status = path_of(args, path);
    if (status != 0) return status;
    status = token_store_open(&store, path, true, true);
    if (status == 0 && !token_file_remove(&store.file, name)) {
        tool_say("%s has no principal named '%s'", path, name);
        status = EXIT_REFUSED;
    }
    if (status == 0) status = token_store_write(&store);
    if (status == 0 && tool->json) {
        out_begin(&out, '{');
        out_text(&out, "result", "revoked");
        out_text(&out, "name", name);
        out_line_end(&out);
    } else if (status == 0) {
        text_printf(&out, "%s revoked\n", name);
    }
    if (status == 0) status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    token_store_close(&store);
    return status;
}

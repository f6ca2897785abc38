/* cmd_amqp_import.c: tarry amqp import: declares everything that a file of `rabbitmqctl export_definitions` lists. It
 * uses AMQP like any other client, so the broker checks names, arguments, permissions and limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "alloc.h"
#include "amqp_link.h"
#include "amqp_topology.h"
#include "amqp_words.h"
#include "json_out.h"
#include "output.h"
#include "place.h"
#include "tool.h"

#define ADDRESS_DEFAULT "127.0.0.1"
#define TOKEN_SIZE 513u

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"amqp", ARG_VALUE, "HOST[:PORT]", "address of the broker's AMQP door, without TLS [127.0.0.1:5672]"},
    {"vhost", ARG_VALUE, "V", "vhost whose objects are declared; Tarry has one vhost [/]"},
    {"dry-run", ARG_FLAG, NULL, "declare nothing; show what would be declared, and what the broker does not support"},
    {0},
};

const struct command command_amqp_import = {
    .name = "amqp import",
    .usage = "FILE [--amqp HOST[:PORT]] [--vhost V] [--dry-run]",
    .summary = "declare the exchanges, queues and bindings of a RabbitMQ",
    .text = "Declares what FILE lists, which 'rabbitmqctl export_definitions FILE' has written: exchanges, then\n"
            "queues, then bindings. What is already declared in the same way stays as it is, so the command may be\n"
            "repeated. It connects to the AMQP door (tarryd --listen amqp://…) with the token of --token-file, or\n"
            "as guest.\n\n"
            "Users, permissions and parameters are not imported: Tarry has tokens. Policies are not imported: the\n"
            "arguments of the queues must say the same. Each policy is named, and makes the exit status 1, as does\n"
            "each object that is refused. Messages are not imported; see docs/MOVING_IN.md.\n\n"
            "--json prints one object for each exchange, queue, binding and policy: `result` is declared,\n"
            "would_declare, refused or not_imported.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "FILE",
    .examples = "rabbitmqctl export_definitions rabbit.json\n"
                "tarry amqp import rabbit.json --dry-run\n"
                "tarry amqp import rabbit.json --amqp 127.0.0.1:5672",
    .run = run,
};

struct importing {
    struct tool *tool;
    struct amqp_link link;
    const char *vhost;
    bool is_dry, is_lost;
    size_t declared, refused, elsewhere;
    struct text out;
};

/* ---- the file's members */

static const char *text_of(json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return json_is_string(value) ? json_string_value(value) : "";
}

static unsigned flag_of(json_t *object, const char *name) {
    return json_is_true(json_object_get(object, name));
}

static struct amqp_bytes bytes_of(const struct amqp_out *out) {
    return (struct amqp_bytes){out->bytes, out->size};
}

/* ---- results */

static void report(struct importing *importing, const char *kind, const char *name, const char *result,
                   const char *message) {
    if (importing->tool->json) {
        out_begin(&importing->out, '{');
        out_text(&importing->out, "kind", kind);
        out_text(&importing->out, "name", name);
        out_text(&importing->out, "result", result);
        out_text(&importing->out, "message", message);
        out_line_end(&importing->out);
        (void)output_flush(&importing->out, EXIT_FINE);
    } else if (message != NULL) {
        tool_say("%s '%s': %s", kind, name, message);
    }
}

static void refuse(struct importing *importing, const char *kind, const char *name, const char *message) {
    importing->refused++;
    report(importing, kind, name, "refused", message);
}

/* Sends the method in `link.out`. With --dry-run, drops it instead. */
static void declare(struct importing *importing, const char *kind, const char *name, enum amqp_method_kind answer) {
    struct amqp_link *link = &importing->link;
    if (importing->is_dry) {
        amqp_out_free(&link->out);
        importing->declared++;
        report(importing, kind, name, "would_declare", NULL);
        return;
    }
    switch (amqp_link_ask(link, answer)) {
    case AMQP_LINK_DONE:
        importing->declared++;
        report(importing, kind, name, "declared", NULL);
        break;
    case AMQP_LINK_REFUSED:
        refuse(importing, kind, name, link->refusal);
        break;
    case AMQP_LINK_LOST:
        importing->is_lost = true;
        refuse(importing, kind, name, link->link.error);
        break;
    }
}

/* ---- exchanges, queues, bindings */

/* Writes the arguments. Returns NULL, or an error message. */
static const char *take_arguments(json_t *object, struct amqp_out *out) {
    json_t *arguments = json_object_get(object, "arguments");
    if (arguments == NULL || json_is_null(arguments) || (json_is_array(arguments) && json_array_size(arguments) == 0))
        return NULL;
    if (!json_is_object(arguments)) return "its arguments are not an object";
    const char *problem = json_as_table(out, arguments);
    if (problem == NULL && out->failed) tool_out_of_memory();
    if (problem == NULL && out->size > AMQP_ARGUMENTS_MAX) problem = "its arguments have more than 4,096 bytes";
    return problem;
}

static const char *name_problem(const char *name) {
    if (name[0] == '\0') return "it has no name";
    return strlen(name) > AMQP_NAME_MAX ? "its name has more than 128 bytes" : NULL;
}

/* For --dry-run: checks the exchange as the broker would. Returns NULL, or an error message. */
static const char *exchange_problem(const char *name, const char *type, struct amqp_bytes arguments) {
    const char *problem = NULL;
    struct amqp_exchange *exchange = amqp_exchange_new(amqp_text(name), arguments);
    if (exchange == NULL) tool_out_of_memory();
    exchange->type = amqp_exchange_type_of(amqp_text(type));
    if (exchange->type == AMQP_EXCHANGE_TYPES)
        problem = "its type is not direct, fanout, topic, headers or x-delayed-message";
    else
        problem = amqp_exchange_arguments(exchange);
    amqp_exchange_free(exchange);
    return problem;
}

static const char *queue_problem(const char *name, struct amqp_bytes arguments) {
    bool is_refused;
    struct amqp_queue *queue = amqp_queue_new(amqp_text(name), arguments);
    if (queue == NULL) tool_out_of_memory();
    const char *problem = amqp_queue_arguments(queue, &is_refused);
    amqp_queue_free(queue);
    return problem;
}

static void take_exchange(struct importing *importing, json_t *object) {
    struct amqp_out arguments = {0};
    const char *name = text_of(object, "name"), *type = text_of(object, "type");
    if (name[0] == '\0' || strncmp(name, "amq.", 4) == 0) return; /* predeclared */
    const char *problem = name_problem(name);
    if (problem == NULL) problem = take_arguments(object, &arguments);
    if (problem == NULL) problem = exchange_problem(name, type, bytes_of(&arguments));
    if (problem == NULL)
        amqp_put_method(&importing->link.out, 1, AMQP_EXCHANGE_DECLARE, 0u, amqp_text(name), amqp_text(type), 0u,
                        flag_of(object, "durable"), flag_of(object, "auto_delete"), flag_of(object, "internal"), 0u,
                        bytes_of(&arguments));
    if (problem == NULL)
        declare(importing, "exchange", name, AMQP_EXCHANGE_DECLARE_OK);
    else
        refuse(importing, "exchange", name, problem);
    amqp_out_free(&arguments);
}

static void take_queue(struct importing *importing, json_t *object) {
    struct amqp_out arguments = {0};
    const char *name = text_of(object, "name");
    const char *problem = name_problem(name);
    if (problem == NULL) problem = take_arguments(object, &arguments);
    if (problem == NULL) problem = queue_problem(name, bytes_of(&arguments));
    if (problem == NULL)
        amqp_put_method(&importing->link.out, 1, AMQP_QUEUE_DECLARE, 0u, amqp_text(name), 0u,
                        flag_of(object, "durable"), 0u, flag_of(object, "auto_delete"), 0u, bytes_of(&arguments));
    if (problem == NULL)
        declare(importing, "queue", name, AMQP_QUEUE_DECLARE_OK);
    else
        refuse(importing, "queue", name, problem);
    amqp_out_free(&arguments);
}

static void take_binding(struct importing *importing, json_t *object) {
    struct amqp_out arguments = {0};
    struct text name = {0};
    const char *source = text_of(object, "source"), *end = text_of(object, "destination"),
               *key = text_of(object, "routing_key");
    const bool is_exchange = strcmp(text_of(object, "destination_type"), "exchange") == 0;
    if (source[0] == '\0') return; /* every queue has this binding to the default exchange; it cannot be declared */
    text_printf(&name, "%s -> %s", source, end);
    const char *problem = strlen(key) > AMQP_SHORTSTR_MAX ? "its routing key has more than 255 bytes" : NULL;
    if (problem == NULL) problem = name_problem(source);
    if (problem == NULL) problem = name_problem(end);
    if (problem == NULL) problem = take_arguments(object, &arguments);
    if (problem == NULL)
        amqp_put_method(&importing->link.out, 1, is_exchange ? AMQP_EXCHANGE_BIND : AMQP_QUEUE_BIND, 0u, amqp_text(end),
                        amqp_text(source), amqp_text(key), 0u, bytes_of(&arguments));
    if (problem == NULL)
        declare(importing, "binding", text_str(&name), is_exchange ? AMQP_EXCHANGE_BIND_OK : AMQP_QUEUE_BIND_OK);
    else
        refuse(importing, "binding", text_str(&name), problem);
    text_deinit(&name);
    amqp_out_free(&arguments);
}

static void take_policy(struct importing *importing, json_t *object) {
    importing->refused++;
    report(importing, "policy", text_of(object, "name"), "not_imported",
           "policies are not imported: declare the queues with the arguments that it sets");
}

typedef void take(struct importing *importing, json_t *object);

/* Passes each object of the vhost to a function. */
static void take_all(struct importing *importing, json_t *root, const char *member, take *take_one) {
    json_t *list = json_object_get(root, member), *object;
    size_t i;
    json_array_foreach(list, i, object) {
        if (importing->is_lost) return;
        if (json_object_get(object, "vhost") != NULL && strcmp(text_of(object, "vhost"), importing->vhost) != 0)
            importing->elsewhere++;
        else
            take_one(importing, object);
    }
}

/* ---- the command */

/* Reads the token from the file that TARRY_TOKEN_FILE names, as the other commands do, and refuses the same files.
 * Returns 0, or an exit status after an error message. */
static int read_token(char out[TOKEN_SIZE]) {
    const char *path = getenv("TARRY_TOKEN_FILE"), *problem = NULL;
    struct stat status;
    out[0] = '\0';
    if (path == NULL || path[0] == '\0') return EXIT_FINE;
    FILE *file = fopen(path, "re");
    if (file == NULL || fstat(fileno(file), &status) != 0)
        problem = strerror(errno);
    else if ((status.st_mode & 077) != 0)
        problem = "other users can read it: run chmod 600 on it";
    else if (fgets(out, TOKEN_SIZE, file) == NULL)
        problem = "the first line has no token";
    if (problem != NULL) tool_say("%s: %s", path, problem);
    if (file != NULL) fclose(file);
    out[strcspn(out, "\r\n")] = '\0';
    return problem == NULL ? EXIT_FINE : EXIT_USAGE;
}

/* Returns whether the address may be on another machine, so that a token would cross the network unencrypted. The rule
 * is that for ws:// addresses. */
static bool leaves_machine(const char *address) {
    struct text url = {0};
    struct place place;
    text_printf(&url, "ws://%s", address);
    const bool is_near = place_parse(text_str(&url), url.size, &place) == 0 && !place_is_in_the_clear(&place);
    text_deinit(&url);
    return !is_near;
}

static int connect_to(struct importing *importing, const char *address) {
    char token[TOKEN_SIZE];
    const char *plain = getenv("TARRY_UNSAFE_PLAIN_TOKEN");
    const int status = read_token(token);
    if (status != EXIT_FINE) return status;
    if (token[0] != '\0' && leaves_machine(address) && (plain == NULL || strcmp(plain, "1") != 0)) {
        tool_say("--amqp %s: the token would cross the network in plain text: run this on the broker's host, or give "
                 "--unsafe-plain-token",
                 address);
        return EXIT_USAGE;
    }
    const char *user = token[0] != '\0' ? "tarry" : "guest", *password = token[0] != '\0' ? token : "guest";
    if (amqp_link_open(&importing->link, address, user, password, importing->tool->timeout_ms)) return EXIT_FINE;
    tool_say("%s: %s", address, importing->link.link.error);
    amqp_link_close(&importing->link);
    return EXIT_SILENCE;
}

static int run(struct tool *tool, const struct args *args) {
    struct importing importing = {.tool = tool, .vhost = args_get(args, "vhost"), .is_dry = args_has(args, "dry-run")};
    const char *path = args->positional[0], *address = args_get(args, "amqp");
    json_error_t error;
    if (importing.vhost == NULL) importing.vhost = "/";
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) return tool_usage(args, "%s: %s (line %d)", path, error.text, error.line);
    const bool is_known = json_is_array(json_object_get(root, "exchanges")) &&
                          json_is_array(json_object_get(root, "queues")) &&
                          json_is_array(json_object_get(root, "bindings"));
    int status = is_known ? EXIT_FINE : tool_usage(args, "%s: not a file of 'rabbitmqctl export_definitions'", path);
    if (is_known && !importing.is_dry) status = connect_to(&importing, address != NULL ? address : ADDRESS_DEFAULT);
    if (status != EXIT_FINE) {
        json_decref(root);
        return status;
    }
    take_all(&importing, root, "exchanges", take_exchange);
    take_all(&importing, root, "queues", take_queue);
    take_all(&importing, root, "bindings", take_binding);
    take_all(&importing, root, "policies", take_policy);
    json_decref(root);
    if (!importing.is_dry) amqp_link_close(&importing.link);
    tool_say("%zu %s, %zu not%s", importing.declared, importing.is_dry ? "would be declared" : "declared",
             importing.refused, importing.elsewhere > 0 ? "; objects of other vhosts were left out (--vhost)" : "");
    text_deinit(&importing.out);
    return importing.refused > 0 ? EXIT_REFUSED : EXIT_FINE;
}

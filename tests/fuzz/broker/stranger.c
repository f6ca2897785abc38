/* stranger.c: a fuzzing client. It sends to a broker what our clients would not send, from a seed or from a trace, and
 * reports what happened. It does not judge the broker: fuzz_broker.py starts the broker, watches it, and runs honest
 * clients. Exit status: 0 if everything was sent, 2 after wrong usage, 3 if the broker no longer listens. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"
#include "tarry.pb-c.h"

enum choice { PORT = 1, SEED, SECONDS, REQUESTS, TRACE, REPLAY, WITHOUT, PLAIN_URI, PROMOTES, TOKEN, BEANSTALK, PASS };

static const struct option options[] = {
    {"port", required_argument, NULL, PORT},
    {"seed", required_argument, NULL, SEED},
    {"seconds", required_argument, NULL, SECONDS},
    {"requests", required_argument, NULL, REQUESTS},
    {"trace", required_argument, NULL, TRACE},
    {"replay", required_argument, NULL, REPLAY},
    {"without", required_argument, NULL, WITHOUT},
    {"plain-uri", no_argument, NULL, PLAIN_URI},
    {"promotes", required_argument, NULL, PROMOTES},
    {"token", required_argument, NULL, TOKEN},
    {"beanstalk", required_argument, NULL, BEANSTALK},
    {"pass", required_argument, NULL, PASS},
    {NULL, 0, NULL, 0},
};

static _Noreturn void usage(void) {
    (void)fprintf(
        stderr,
        "usage: stranger --port N [--port N] [--beanstalk N] [--seed N] [--seconds N] [--requests N] [--trace FILE]\n"
        "                [--without BODY] [--plain-uri] [--promotes ONCE_IN] [--token TEXT]... [--pass FILE]\n"
        "       stranger --port N [--port N] [--beanstalk N] [--pass FILE] --replay FILE\n");
    exit(2);
}

static uint64_t number(const char *text) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') usage();
    return value;
}

static const char *name_of(const ProtobufCEnumDescriptor *codes, int code) {
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(codes, code);
    return value != NULL ? value->name : "?";
}

/* Prints the report, one line of JSON. */
static void report(const struct talk *talk) {
    printf("{\"requests\": %lu, \"noises\": %lu, \"connections\": %u, \"answers\": %lu, \"deliveries\": %lu, "
           "\"bytes\": %lu, \"jumps\": %lu",
           talk->requests, talk->noises, talk->opened, talk->answers, talk->deliveries, talk->bytes, talk->pass.jumps);
    printf(", \"codes\": {");
    const char *between = "";
    for (unsigned body = 0; body < BODIES_MAX; body++)
        for (int code = 0; code < CODES_MAX; code++) {
            if (talk->codes[body][code] == 0) continue;
            const ProtobufCFieldDescriptor *field =
                protobuf_c_message_descriptor_get_field(&tarry__reply__descriptor, body);
            printf("%s\"%s %s\": %lu", between, field != NULL ? field->name : "-",
                   name_of(&tarry__code__descriptor, code), talk->codes[body][code]);
            between = ", ";
        }
    printf("}, \"operations\": {");
    between = "";
    for (int code = 0; code < CODES_MAX; code++) {
        if (talk->results[code] == 0) continue;
        printf("%s\"%s\": %lu", between, name_of(&tarry__code__descriptor, code), talk->results[code]);
        between = ", ";
    }
    printf("}, \"http\": {");
    between = "";
    for (unsigned status = 0; status < STATUSES_MAX; status++) {
        if (talk->statuses[status] == 0) continue;
        printf("%s\"%u\": %lu", between, status, talk->statuses[status]);
        between = ", ";
    }
    printf("}, \"jobs\": {");
    between = "";
    for (unsigned i = 0; i < WORDS_MAX && talk_words[i] != NULL; i++) {
        if (talk->words[i] == 0) continue;
        printf("%s\"%s\": %lu", between, talk_words[i], talk->words[i]);
        between = ", ";
    }
    printf("}}\n");
}

int main(int argc, char **argv) {
    static struct talk talk = {.requests_max = UINT64_MAX, .end_ms = UINT64_MAX};
    const char *replay = NULL;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        bool is_port = option == PORT || option == BEANSTALK;
        /* The order of the ports is fixed, because a trace refers to it. */
        if (is_port && (talk.port_count + talk.jobs_count == PORTS_MAX || (option == PORT && talk.jobs_count > 0)))
            usage();
        if (is_port) talk.ports[talk.port_count + talk.jobs_count] = (uint16_t)number(optarg);
        if (option == PORT) talk.port_count++;
        if (option == BEANSTALK) talk.jobs_count++;
        if (option == SEED) talk.random.state = number(optarg);
        if (option == SECONDS) talk.end_ms = talk_now_ms() + number(optarg) * 1000;
        if (option == REQUESTS) talk.requests_max = number(optarg);
        if (option == TRACE) trace_open(&talk.trace, optarg);
        if (option == REPLAY) replay = optarg;
        if (option == WITHOUT) talk.guard.without = optarg;
        if (option == PLAIN_URI) talk.plain_uri = true;
        if (option == TOKEN && talk.token_count == TOKENS_MAX) usage();
        if (option == TOKEN) talk.tokens[talk.token_count++] = optarg;
        if (option == PASS) pass_open(&talk.pass, optarg);
        if (option == PROMOTES) talk.promotes_once_in = number(optarg);
        if (option == '?') usage();
    }
    if (talk.port_count == 0 || optind != argc) usage();
    (void)signal(SIGPIPE, SIG_IGN);
    if (replay != NULL) return trace_replay(replay, talk.ports, talk.port_count + talk.jobs_count, &talk.pass);
    talk_run(&talk);
    trace_close(&talk.trace);
    report(&talk);
    return talk.refused ? 3 : 0;
}

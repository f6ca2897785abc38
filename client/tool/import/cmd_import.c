/* cmd_import.c: tarry import. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bean_words.h"
#include "import.h"

#define PASSWORD_SIZE 513u
#define TUBES_MAX 1024u
#define REDIS_DEFAULT "127.0.0.1"

static const struct arg_spec options[] = {
    {"beanstalkd", ARG_VALUE, "HOST[:PORT]", "beanstalkd whose jobs are imported [port 11300]"},
    {"tube", ARG_MANY, "T", "tube to import; may be repeated [all tubes]"},
    {"queue-prefix", ARG_VALUE, "P", "prefix of the queue names: tube T becomes queue PT"},
    {"redis-zset", ARG_VALUE, "KEY", "sorted set in Redis whose members are imported, each due at its score"},
    {"redis", ARG_VALUE, "HOST[:PORT]", "address of Redis [127.0.0.1:6379]"},
    {"redis-db", ARG_VALUE, "N", "number of the Redis database [0]"},
    {"redis-user", ARG_VALUE, "NAME", "Redis user, if Redis has users (ACL)"},
    {"redis-password-file", ARG_VALUE, "F", "file with the Redis password [$TARRY_REDIS_PASSWORD]"},
    {"score", ARG_VALUE, "s|ms", "unit of a score since 1970 [guessed from its size]"},
    {"member-key", ARG_FLAG, NULL, "use the member as the key of the task, too"},
    {"dry-run", ARG_FLAG, NULL, "only count the jobs or members"},
    {"copy", ARG_FLAG, NULL, "remove nothing from the other server"},
    {0},
};

static int run(struct tool *tool, const struct args *args);

const struct command command_import = {
    .name = "import",
    .usage = "--beanstalkd HOST[:PORT] [--tube T]… [OPTION]…\nQUEUE --redis-zset KEY [--redis HOST[:PORT]] [OPTION]…",
    .summary = "import the jobs of a beanstalkd, or of a sorted set in Redis",
    .text = "Imports the waiting jobs of another server. It schedules them here, waits until they are durable,\n"
            "and only then removes them there. If it is interrupted or killed, repeat it: nothing is lost, and\n"
            "nothing is imported twice. A task in queue tarry-import names the jobs that are being moved; it is\n"
            "written in the same atomic commit.\n\n"
            "beanstalkd: tube T becomes queue T. Ready jobs are ready, in the order of pri and id. Delayed jobs\n"
            "are due when their delay is over, or up to one second later, because beanstalkd reports whole\n"
            "seconds. Buried jobs become tasks of queue T.buried, where no consumer gets them by accident.\n"
            "Reserved jobs stay with their workers. Clients that use beanstalkd's protocol (tarryd --listen\n"
            "beanstalk://…) see pri and TTR of the jobs; other clients see them in the attribute 'beanstalk'.\n"
            "To find the highest job id, the command puts a job into tube tarry-import-probe and deletes it.\n\n"
            "Redis: a member becomes the payload of a task, and its score the due time; past times are due at\n"
            "once. Members that are due first are imported first. If a worker removes a member before the\n"
            "import does, the worker keeps it, and the task here is cancelled.\n\n"
            "Stop the old workers first, or make sure that a job may run twice: if the import is killed while\n"
            "they run, old and new workers may both process the last 1,024 ready jobs.\n\n"
            "The exit status is 1 if anything stays on the other server (refused, reserved or new): repeat the\n"
            "import. --json prints one object for each refused job and one at the end; with --dry-run, one for\n"
            "each tube. For RabbitMQ see docs/MOVING_IN.md.",
    .options = options,
    .positional_min = 0,
    .positional_max = 1,
    .examples = "tarry import --beanstalkd 10.0.0.5 --dry-run\n"
                "tarry import --beanstalkd 10.0.0.5:11300 --tube close-order\n"
                "tarry import close-order --redis-zset delayed-orders --redis 10.0.0.6 --member-key",
    .run = run,
};

/* Reads the first line of the file, or the environment variable. 0, or an exit status after an error message. */
static int take_password(const struct args *args, char out[PASSWORD_SIZE], const char **out_password) {
    const char *path = args_get(args, "redis-password-file");
    *out_password = getenv("TARRY_REDIS_PASSWORD");
    if (path == NULL) return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, out, PASSWORD_SIZE - 1) : -1;
    if (size < 0) tool_say("%s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    if (size < 0) return EXIT_USAGE;
    out[size] = 0;
    out[strcspn(out, "\r\n")] = 0;
    if (out[0] == 0) {
        tool_say("%s: the first line has no password", path);
        return EXIT_USAGE;
    }
    *out_password = out;
    return 0;
}

/* Refuses options of the other kind of server (Redis or beanstalkd), which would have no effect. */
static int refuse_others(const struct args *args, const char *const *others, const char *with) {
    for (; *others != NULL; others++)
        if (args_has(args, *others)) return tool_usage(args, "--%s cannot be used with --%s", *others, with);
    return 0;
}

static int from_beanstalkd(struct import *import, const struct args *args, bool is_dry) {
    static const char *const others[] = {"redis", "redis-db",   "redis-user", "redis-password-file",
                                         "score", "member-key", NULL};
    const char *tubes[TUBES_MAX];
    struct bean_options bean = {.tubes = tubes, .prefix = args_get(args, "queue-prefix")};
    int status = refuse_others(args, others, "beanstalkd");
    if (status != 0) return status;
    if (args->positional_count > 0)
        return tool_usage(args,
                          "unexpected QUEUE '%s': each tube becomes the queue of the same name (see --queue-prefix)",
                          args->positional[0]);
    if (args->many_count > TUBES_MAX)
        return tool_usage(args, "more than %u tubes: import them in several runs", TUBES_MAX);
    for (size_t i = 0; i < args->many_count; i++) tubes[bean.tube_count++] = args->many[i].value;
    for (size_t i = 0; i < bean.tube_count; i++)
        if (!bean_is_tube(tubes[i])) return tool_usage(args, "--tube: '%s' is not a valid tube name", tubes[i]);
    if (bean.prefix == NULL) bean.prefix = "";
    bean_origin(import, &bean);
    return import_run(import, is_dry);
}

static int from_redis(struct import *import, const struct args *args, bool is_dry) {
    static const char *const others[] = {"queue-prefix", NULL};
    char password[PASSWORD_SIZE];
    const char *score = args_get(args, "score");
    struct redis_options redis = {.zset = args_get(args, "redis-zset"),
                                  .user = args_get(args, "redis-user"),
                                  .member_key = args_has(args, "member-key")};
    int status = refuse_others(args, others, "redis-zset");
    if (status == 0) status = option_number(args, "redis-db", 0, INT32_MAX, &redis.database);
    if (status == 0) status = take_password(args, password, &redis.password);
    if (status != 0) return status;
    if (args->many_count > 0) return tool_usage(args, "--tube cannot be used with --redis-zset");
    if (args->positional_count == 0) return tool_usage(args, "missing queue: give QUEUE");
    if (score != NULL && strcmp(score, "s") != 0 && strcmp(score, "ms") != 0)
        return tool_usage(args, "--score: '%s' is not s or ms", score);
    if (redis.user != NULL && redis.password == NULL)
        return tool_usage(args, "--redis-user needs a password: --redis-password-file, or TARRY_REDIS_PASSWORD");
    if (score != NULL) redis.score_scale = strcmp(score, "s") == 0 ? 1000 : 1;
    redis.queue = args->positional[0];
    redis_origin(import, &redis);
    return import_run(import, is_dry);
}

static int run(struct tool *tool, const struct args *args) {
    const bool is_dry = args_has(args, "dry-run");
    const char *bean = args_get(args, "beanstalkd"), *zset = args_get(args, "redis-zset"),
               *redis = args_get(args, "redis");
    struct import import = {.tool = tool, .is_copy = args_has(args, "copy"), .link = {.fd = -1}};
    if ((bean != NULL) == (zset != NULL))
        return tool_usage(args, "missing source: give either --beanstalkd HOST or --redis-zset KEY");
    if (is_dry && import.is_copy) return tool_usage(args, "--dry-run and --copy exclude each other");
    import.address = bean != NULL ? bean : redis != NULL ? redis : REDIS_DEFAULT;
    return bean != NULL ? from_beanstalkd(&import, args, is_dry) : from_redis(&import, args, is_dry);
}

/* story.c: see story.h. */
#include "story.h"

struct world_options story_options(void) {
    struct world_options options = world_options_default();
    options.by_hand = true;
    options.core.policy.lease_ms = 30000;
    return options;
}

static void begin(struct fx *f, const struct world_options *options) {
    world_begin(f->world, options);
    f->wordy = false;
    f->world->trace.on = true;
    for (uint32_t i = 0; i < f->world->host_count; i++) {
        world_enter(f->world, i);
        MUST(host_start(f->world, false));
    }
    world_enter(f->world, WORLD_OUTSIDE);
    if (f->world->host_count > 1) world_elapse_ms(f->world, 500); /* in a pair, one of the nodes leads after 500 ms */
    f->shop = client_new(f->world, "shop");
    f->worker = client_new(f->world, "worker");
    client_hello(f->shop);
    client_hello(f->worker);
    world_run_until(f->world, STORY_BEGINS_MS * NS_PER_MS);
    SIM_SKIP(f);
}

int story_setup(void **state) {
    static struct fx the_fixture; /* static and made once, because a world takes megabytes */
    if (!the_fixture.world) the_fixture.world = world_new();
    struct world_options options = story_options();
    begin(&the_fixture, &options);
    *state = &the_fixture;
    return 0;
}

int story_teardown(void **state) {
    struct fx *f = *state;
    world_end(f->world);
    return 0;
}

void story_begin_again(struct fx *f, const struct world_options *options) {
    world_end(f->world);
    begin(f, options);
}

void subscribe(struct client *client, const char *queue) {
    client_subscribe(client, (const char *const[]){queue, NULL}, 10, 0);
}

Tarry__Ref *order(struct fx *f, const char *key) {
    return op_ref(f->world, "orders", key, 0);
}

struct model_file *log_file(struct fx *f) {
    struct model_disk *disk = f->world->host->disk;
    const struct model_entry *last = NULL;
    for (int i = 0; i < MODEL_FILES_MAX; i++) {
        const struct model_entry *entry = &disk->cached[i];
        if (!strstr(entry->name, ".seg")) continue;
        if (!last || strcmp(entry->name, last->name) > 0)
            last =
                entry; /* the names are ordered like the segments' positions, so the last name is the last segment's */
    }
    MUST(last);
    return &disk->files[last->file];
}

/* Returns the text after "[1000] broker " or "[1000] node 1 "; NULL: the line is another actor's. */
static const char *of_broker(const char *line, size_t size) {
    static const char *const names[] = {"broker ", "node 0 ", "node 1 "};
    const char *who = memchr(line, ']', size);
    for (size_t i = 0; who && i < sizeof names / sizeof *names; i++) {
        if (strncmp(who + 2, names[i], strlen(names[i])) == 0) return who + 2 + strlen(names[i]);
    }
    return NULL;
}

/* Returns whether the line is about routine work: the index follows the log, or a seal frame is written. The broker
 * writes a seal frame 20 ms after the last frame. Lines about the seal frame's sync, copy and commit are routine work
 * too. */
static bool is_housekeeping(const char *line, size_t size, unsigned long *seal) {
    static const char append[] = "append #";
    static const char *const verbs[] = {"durable #", "has #", "committed #"};
    const char *what = of_broker(line, size);
    if (!what) return false;
    if (strncmp(what, "indexed ", 8) == 0) return true;
    if (strncmp(what, append, sizeof append - 1) == 0) {
        char *end = NULL;
        unsigned long number = strtoul(what + sizeof append - 1, &end, 10);
        bool is_seal = strncmp(end, " seal\n", 6) == 0;
        *seal = is_seal ? number : 0;
        return is_seal;
    }
    for (size_t i = 0; *seal && i < sizeof verbs / sizeof *verbs; i++) {
        size_t verb_size = strlen(verbs[i]);
        if (strncmp(what, verbs[i], verb_size) == 0 && strtoul(what + verb_size, NULL, 10) == *seal) return true;
    }
    return false;
}

static char *without_housekeeping(const char *text) {
    char *out = malloc(strlen(text) + 1);
    MUST(out);
    char *end = out;
    unsigned long seal = 0; /* number of the newest frame if that is a seal frame; 0: it is another frame */
    while (*text) {
        size_t size = strcspn(text, "\n") + 1;
        if (!is_housekeeping(text, size, &seal)) {
            memcpy(end, text, size);
            end += size;
        }
        text += size;
    }
    *end = 0;
    return out;
}

/* Records one comparison for golden.py: its file and line, and the lines of the trace, each with the prefix "|". */
static void record(const char *path, const char *file, int line, const char *text) {
    FILE *out = fopen(path, "a");
    MUST(out);
    (void)fprintf(out, "@ %s:%d\n", file, line);
    while (*text) {
        size_t size = strcspn(text, "\n");
        (void)fprintf(out, "|%.*s\n", (int)size, text);
        text += size + (text[size] == '\n');
    }
    MUST(fclose(out) == 0);
}

void story_trace(struct fx *f, const char *file, int line, const char *expected) {
    const char *all = trace_take(f->world);
    char *happened = f->wordy ? strdup(all) : without_housekeeping(all);
    MUST(happened);
    const char *path = getenv("TARRY_STORY_RECORD");
    bool is_told = strcmp(happened, expected) == 0;
    if (path) {
        record(path, file, line, happened);
    } else if (!is_told) {
        print_message("%s:%d: the story says:\n%s", file, line, *expected ? expected : "(nothing)\n");
        print_message("what happened:\n%s", *happened ? happened : "(nothing)\n");
    }
    free(happened);
    if (!path && !is_told) fail();
}

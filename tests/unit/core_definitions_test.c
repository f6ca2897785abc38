/* core_definitions_test.c: definitions: after a random history, the core, a core that replays its frames, and a core
 * that starts from an index have what a simple model expects (LOG-2, LOG-3); limits (CAP-1); and permissions. */
#include "core_alone.h"

#include <unistd.h>

#include "../random.h"
#include "definitions.h"
#include "index.h"
#include "state.h"

enum { NAMES = 24, VALUE_MAX = 300 };

struct expected {
    uint64_t version; /* version of the definition; 0: not defined */
    size_t value_size;
};

struct world {
    struct fx *f;
    struct core *follower;
    struct index *index; /* NULL: none */
    struct expected expected[2][NAMES];
    char directory[64];
};
static struct world world;

static const char *const spaces[] = {"amqp", "other"};

static void take_frames(struct fx *f) {
    for (size_t i = 0; i < f->effects.appends.count; i++) {
        const struct core_append *append = &f->effects.appends.items[i];
        const struct frame_header header = {
            .position = append->position,
            .type = append->type,
            .epoch = append->epoch,
            .steady_ns = append->now.steady_ns,
            .wall_ns = append->now.wall_ns,
            .body_size = append->body_size,
        };
        Tarry__FrameBody *body =
            append->body_size > 0 ? tarry__frame_body__unpack(NULL, append->body_size, append->body) : NULL;
        assert_int_equal(core_replay(world.follower, &header, body), 0);
        if (world.index != NULL) assert_int_equal(index_absorb(world.index, &header, body), 0);
        if (body != NULL) tarry__frame_body__free_unpacked(body, NULL);
    }
}

static void open_index(void) {
    char message[200];
    struct index_options options = {.directory = world.directory,
                                    .memory = 16u << 20,
                                    .outcomes_max = 100,
                                    .outcome_retention_ms = 1,
                                    .no_sync = true};
    assert_int_equal(index_open(&world.index, &options, message, sizeof message), 0);
}

static void begin_world(struct fx *f) {
    struct core_options options = defaults;
    options.policy = (Tarry__Policy)TARRY__POLICY__INIT;
    world = (struct world){.f = f, .follower = core_new(&options)};
    snprintf(world.directory, sizeof world.directory, "/tmp/definitions.XXXXXX");
    assert_non_null(mkdtemp(world.directory));
    strncat(world.directory, "/index", sizeof world.directory - strlen(world.directory) - 1);
    open_index();
    f->after_step = take_frames;
    begin_again(f, &defaults);
}

static void end_world(void) {
    char command[100];
    core_check(world.follower);
    core_free(world.follower);
    index_close(world.index);
    *strrchr(world.directory, '/') = '\0';
    snprintf(command, sizeof command, "rm -r %s", world.directory);
    assert_int_equal(system(command), 0);
}

/* Returns name number `number`. The names have different lengths and bytes of every kind. */
static ProtobufCBinaryData name_of(uint32_t number, uint8_t out[DEFINITION_NAME_SIZE_MAX]) {
    size_t size = 1 + number * 11;
    for (size_t i = 0; i < size; i++) out[i] = (uint8_t)(number % 3 * 100 + i);
    out[size - 1] = (uint8_t)number;
    return (ProtobufCBinaryData){.len = size, .data = out};
}

static ProtobufCBinaryData value_of(uint64_t version, size_t size, uint8_t *out) {
    for (size_t i = 0; i < size; i++) out[i] = (uint8_t)(version + i);
    return (ProtobufCBinaryData){.len = size, .data = out};
}

static Tarry__Code define(struct fx *f, Tarry__Define *body) {
    Tarry__Op op = TARRY__OP__INIT;
    op.op_case = TARRY__OP__OP_DEFINE;
    op.define = body;
    return commit(f, &op);
}

static Tarry__Code define_plain(struct fx *f, const char *space, const char *name, size_t value_size) {
    static uint8_t value[DEFINITION_VALUE_SIZE_MAX];
    Tarry__Define body = TARRY__DEFINE__INIT;
    body.space = (char *)space;
    body.name = (ProtobufCBinaryData){.len = strlen(name), .data = (uint8_t *)name};
    body.value = (ProtobufCBinaryData){.len = value_size, .data = value};
    return define(f, &body);
}

static const Tarry__DefinitionsReply *list(struct fx *f, Tarry__Definitions *body) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_DEFINITIONS;
    request.definitions = body;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    return f->effects.replies.items[0].reply->definitions;
}

/* Compares all definitions of the core, read a page at a time, with the model. */
static void check_all(struct fx *f, uint32_t limit) {
    for (size_t s = 0; s < 2; s++) {
        size_t wanted = 0, found = 0;
        for (uint32_t i = 0; i < NAMES; i++) wanted += world.expected[s][i].version != 0;
        uint8_t last[DEFINITION_NAME_SIZE_MAX];
        Tarry__Definitions body = TARRY__DEFINITIONS__INIT;
        body.space = (char *)spaces[s];
        body.limit = limit;
        for (bool more = true; more;) {
            const Tarry__DefinitionsReply *reply = list(f, &body);
            assert_int_equal(reply->position, core_position(f->core));
            for (size_t i = 0; i < reply->n_definitions; i++) {
                const Tarry__Definition *definition = reply->definitions[i];
                const uint32_t number = definition->name.data[definition->name.len - 1];
                const struct expected *expected = &world.expected[s][number];
                uint8_t name[DEFINITION_NAME_SIZE_MAX], value[VALUE_MAX];
                const ProtobufCBinaryData own = name_of(number, name);
                assert_int_equal(definition->name.len, own.len);
                assert_memory_equal(definition->name.data, own.data, own.len);
                assert_int_equal(definition->version, expected->version);
                assert_int_equal(definition->value.len, expected->value_size);
                value_of(expected->version, expected->value_size, value);
                if (definition->value.len > 0)
                    assert_memory_equal(definition->value.data, value, definition->value.len);
                found++;
            }
            more = reply->more;
            if (!more) break;
            const Tarry__Definition *end = reply->definitions[reply->n_definitions - 1];
            memcpy(last, end->name.data, end->name.len);
            body.after = (ProtobufCBinaryData){.len = end->name.len, .data = last};
        }
        assert_int_equal(found, wanted);
    }
}

static int restore(void *argument, const Tarry__DefinitionPut *put) {
    return core_restore_definition(argument, put);
}

/* Checks that a core that starts from the index has the same definitions as the core that wrote the log. */
static void check_restored(struct fx *f) {
    struct index_meta meta;
    struct index_verification found;
    char message[200];
    assert_int_equal(index_commit(world.index), 0);
    index_close(world.index);
    open_index();
    index_meta(world.index, &meta);
    assert_int_equal(meta.tally.digest, core_digest(f->core));
    assert_int_equal(index_verify(world.index, &found, message, sizeof message, NULL, NULL), 0);
    struct core *core = core_new(&f->options);
    assert_int_equal(index_each_definition(world.index, restore, core), 0);
    for (size_t s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < NAMES; i++) {
            uint8_t bytes[DEFINITION_NAME_SIZE_MAX];
            const ProtobufCBinaryData name = name_of(i, bytes);
            const struct definition_key key = {spaces[s], name.data, name.len};
            assert_int_equal(definitions_find(core->definitions, &key).version, world.expected[s][i].version);
        }
    }
    core_check(core);
    core_free(core);
}

static void define_at_random(struct fx *f, struct random *random) {
    const size_t s = random_below(random, 2);
    const uint32_t number = (uint32_t)random_below(random, NAMES);
    struct expected *expected = &world.expected[s][number];
    uint8_t name[DEFINITION_NAME_SIZE_MAX], value[VALUE_MAX];
    Tarry__Define body = TARRY__DEFINE__INIT;
    body.space = (char *)spaces[s];
    body.name = name_of(number, name);
    body.deleted = random_below(random, 3) == 0;
    const size_t value_size = body.deleted ? 0 : random_below(random, VALUE_MAX);
    body.has_expected = random_below(random, 2) == 0;
    body.expected = random_below(random, 4) == 0 ? 1 + random_below(random, 1000) : expected->version;
    if (!body.has_expected) body.expected = 0;
    const uint64_t position = core_position(f->core);
    body.value = value_of(position, value_size, value);
    const Tarry__Code code = define(f, &body);
    const bool is_refused = body.has_expected && body.expected != expected->version;
    assert_int_equal(code, is_refused ? TARRY__CODE__NOT_DONE : TARRY__CODE__OK);
    if (!is_refused) *expected = (struct expected){body.deleted ? 0 : position, value_size};
}

static void what_is_defined_survives_replay_and_restart(void **state) { /* LOG-2, LOG-3 */
    struct fx *f = *state;
    struct random random = {random_seed(1)};
    begin_world(f);
    for (int round = 0; round < 300; round++) {
        for (int n = 0; n < 20; n++) define_at_random(f, &random);
        check_all(f, 1 + (uint32_t)random_below(&random, 10));
        assert_int_equal(core_digest(f->core), core_digest(world.follower));
        if (round % 30 == 0) check_restored(f);
    }
    core_check(f->core);
    check_restored(f);
    end_world();
    f->after_step = NULL;
}

/* An operation sees the effects of earlier operations of its commit. If one is refused, an atomic commit has no effect.
 */
static void a_commit_defines_in_one(void **state) {
    struct fx *f = *state;
    Tarry__Define first = TARRY__DEFINE__INIT, second = TARRY__DEFINE__INIT;
    Tarry__Op ops[2] = {TARRY__OP__INIT, TARRY__OP__INIT}, *pointers[2] = {&ops[0], &ops[1]};
    first.space = second.space = (char *)"amqp";
    first.name = second.name = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"a"};
    first.has_expected = second.has_expected = true; /* both operations expect that the name is not defined yet */
    ops[0].op_case = ops[1].op_case = TARRY__OP__OP_DEFINE;
    ops[0].define = &first;
    ops[1].define = &second;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = &commit;
    commit.producer = f->producer;
    commit.sequence = commit.oldest_unanswered = ++f->sequence;
    commit.atomic = true;
    commit.ops = pointers;
    commit.n_ops = 2;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    Tarry__Definitions all = TARRY__DEFINITIONS__INIT;
    all.space = (char *)"amqp";
    assert_int_equal(list(f, &all)->n_definitions,
                     0); /* the second one is refused, because the first one has defined the name */
    second.has_expected = false;
    second.deleted = true;
    commit.sequence = commit.oldest_unanswered = ++f->sequence;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    assert_int_equal(f->result, TARRY__CODE__OK);
    assert_int_equal(list(f, &all)->n_definitions,
                     0); /* no definition is left, because the commit deleted the name again */
    second.deleted = false;
    commit.sequence = commit.oldest_unanswered = ++f->sequence;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    assert_int_equal(list(f, &all)->n_definitions, 1);
}

static void names_are_listed_in_order(void **state) {
    struct fx *f = *state;
    static const char *const names[] = {"b/2", "a", "b/10", "b", "c", "b/1"};
    for (size_t i = 0; i < 6; i++) assert_int_equal(define_plain(f, "amqp", names[i], 3), TARRY__CODE__OK);
    Tarry__Definitions body = TARRY__DEFINITIONS__INIT;
    body.space = (char *)"amqp";
    body.prefix = (ProtobufCBinaryData){.len = 2, .data = (uint8_t *)"b/"};
    const Tarry__DefinitionsReply *reply = list(f, &body);
    assert_int_equal(reply->n_definitions, 3);
    assert_false(reply->more);
    assert_memory_equal(reply->definitions[0]->name.data, "b/1", 3);
    assert_memory_equal(reply->definitions[1]->name.data, "b/10", 4);
    assert_memory_equal(reply->definitions[2]->name.data, "b/2", 3);
    body.after = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)"b/1"};
    body.limit = 1;
    reply = list(f, &body);
    assert_int_equal(reply->n_definitions, 1);
    assert_true(reply->more);
    assert_memory_equal(reply->definitions[0]->name.data, "b/10", 4);
    body.space = (char *)"none";
    assert_int_equal(list(f, &body)->n_definitions, 0);
}

static void limits_are_kept(void **state) { /* CAP-1 */
    struct fx *f = *state;
    char name[32];
    size_t count = 0;
    for (;; count++) { /* the limit is 8 MiB, with each value rounded up to chunks of 60 bytes */
        snprintf(name, sizeof name, "n%06zu", count);
        if (define_plain(f, "amqp", name, DEFINITION_VALUE_SIZE_MAX) != TARRY__CODE__OK) break;
    }
    assert_int_equal(f->result, TARRY__CODE__TOO_LARGE);
    assert_int_equal(count, DEFINITIONS_SIZE_MAX / definition_size(7, DEFINITION_VALUE_SIZE_MAX));
    assert_int_equal(define_plain(f, "other", name, 3), TARRY__CODE__OK);
    assert_int_equal(define_plain(f, "third", name, 3), TARRY__CODE__TOO_LARGE);
    Tarry__Definitions all = TARRY__DEFINITIONS__INIT;
    all.space = (char *)"amqp";
    const Tarry__DefinitionsReply *reply = list(f, &all); /* a result page has at most 1 MiB */
    assert_true(reply->more && reply->n_definitions == DEFINITIONS_PAGE_SIZE / (DEFINITION_VALUE_SIZE_MAX + 7));
    for (size_t i = 0; i < count; i++) {
        Tarry__Define body = TARRY__DEFINE__INIT;
        snprintf(name, sizeof name, "n%06zu", i);
        body.space = (char *)"amqp";
        body.name = (ProtobufCBinaryData){.len = 7, .data = (uint8_t *)name};
        body.deleted = true;
        assert_int_equal(define(f, &body), TARRY__CODE__OK);
    }
    /* A third definition is accepted, because the definitions of the namespace "amqp" have been deleted. */
    assert_int_equal(define_plain(f, "third", name, 3), TARRY__CODE__OK);
    core_check(f->core);
}

static void no_client_may_change_them(void **state) {
    struct fx *f = *state;
    const struct core_caller client = {.name = "admin", .acts_for_all = true};
    const struct core_caller broker = {.name = "(tarryd)", .acts_for_all = true, .is_broker = true};
    f->caller = &client;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
    assert_int_equal(define_plain(f, "amqp", "a", 1), TARRY__CODE__DENIED);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Definitions all = TARRY__DEFINITIONS__INIT;
    request.body_case = TARRY__REQUEST__BODY_DEFINITIONS;
    request.definitions = &all;
    all.space = "amqp";
    f->caller = &broker;
    assert_int_equal(define_plain(f, "amqp", "a", 1), TARRY__CODE__OK);
    f->caller = &client;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK); /* a client may read definitions, but may not define any */
    assert_int_equal(f->effects.replies.items[0].reply->definitions->n_definitions, 1);
    f->caller = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_defined_survives_replay_and_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_commit_defines_in_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_listed_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_client_may_change_them, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

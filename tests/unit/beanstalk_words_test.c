/* beanstalk_words_test.c: beanstalkd's protocol without a broker: commands in pieces of any size, skipped bodies,
 * priorities, and the YAML that clients read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "beanstalk_parser.h"
#include "beanstalk_text.h"
#include "beanstalk_tubes.h"

/* Parses the first command of the text, and passes the text to the parser in pieces of `piece` bytes. */
static struct beanstalk_command parse(struct beanstalk_parser *parser, const char *text, size_t size, size_t piece) {
    struct beanstalk_command command = {.kind = BEANSTALK_NONE};
    for (size_t at = 0; at < size && command.kind == BEANSTALK_NONE;) {
        size_t part = piece < size - at ? piece : size - at;
        at += beanstalk_parse(parser, (const uint8_t *)text + at, part, &command);
    }
    return command;
}

static enum beanstalk_kind kind_of(const char *line) {
    struct beanstalk_parser parser = {0};
    char text[512];
    int size = snprintf(text, sizeof(text), "%s\r\n", line);
    struct beanstalk_command command = parse(&parser, text, (size_t)size, 1);
    beanstalk_parser_end(&parser);
    return command.kind;
}

static void a_line_is_known_by_its_beginning(void **state) {
    static const struct {
        const char *line;
        enum beanstalk_kind kind;
    } lines[] = {
        {"reserve", BEANSTALK_RESERVE},
        {"reserve ", BEANSTALK_BAD_FORMAT},
        {"reserver", BEANSTALK_BAD_FORMAT},
        {"reserve-with-timeout 5", BEANSTALK_RESERVE_TIMEOUT},
        {"reserve-with-timeout", BEANSTALK_BAD_FORMAT},
        /* Strtol returns 0 for text that does not begin with a digit, so the timeout is 0. */
        {"reserve-with-timeout x", BEANSTALK_RESERVE_TIMEOUT},
        {"reserve-with-timeout 99999999999999999999", BEANSTALK_BAD_FORMAT},
        {"reserve-job 7", BEANSTALK_RESERVE_JOB},
        {"delete 18446744073709551615", BEANSTALK_DELETE},
        {"delete 18446744073709551616", BEANSTALK_BAD_FORMAT},
        {"delete 7 ", BEANSTALK_BAD_FORMAT},
        {"delete  7", BEANSTALK_DELETE},
        {"delete -7", BEANSTALK_BAD_FORMAT},
        {"delete", BEANSTALK_UNKNOWN},
        {"release 7 4294967295 0", BEANSTALK_RELEASE},
        {"release 7 4294967296 0", BEANSTALK_BAD_FORMAT},
        {"release 7 1", BEANSTALK_BAD_FORMAT},
        {"bury 7 1", BEANSTALK_BURY},
        {"kick 10", BEANSTALK_KICK},
        {"kick 10x", BEANSTALK_KICK},
        {"kick x", BEANSTALK_BAD_FORMAT},
        {"kick-job 7", BEANSTALK_KICK_JOB},
        {"touch 7", BEANSTALK_TOUCH},
        {"peek 7", BEANSTALK_PEEK},
        {"peek-ready", BEANSTALK_PEEK_READY},
        {"peek-ready 1", BEANSTALK_BAD_FORMAT},
        {"peek-delayed", BEANSTALK_PEEK_DELAYED},
        {"peek-buried", BEANSTALK_PEEK_BURIED},
        {"stats", BEANSTALK_STATS},
        {"stats-job 7", BEANSTALK_STATS_JOB},
        {"stats-tube a", BEANSTALK_STATS_TUBE},
        {"list-tubes", BEANSTALK_LIST_TUBES},
        {"list-tube-used", BEANSTALK_LIST_TUBE_USED},
        {"list-tubes-watched", BEANSTALK_LIST_TUBES_WATCHED},
        {"use a/b;c.d$e_f(g)+h-i", BEANSTALK_USE},
        {"use / HTTP/1.1", BEANSTALK_FOREIGN},
        {"POST / HTTP/1.1", BEANSTALK_FOREIGN},
        {"hOsT: x", BEANSTALK_FOREIGN},
        {"host", BEANSTALK_UNKNOWN},
        {"use -a", BEANSTALK_BAD_FORMAT},
        {"use a b", BEANSTALK_BAD_FORMAT},
        {"use ", BEANSTALK_BAD_FORMAT},
        {"watch a", BEANSTALK_WATCH},
        {"ignore a", BEANSTALK_IGNORE},
        {"pause-tube a 5", BEANSTALK_PAUSE_TUBE},
        {"pause-tube a", BEANSTALK_BAD_FORMAT},
        {"pause-tube a x", BEANSTALK_BAD_FORMAT},
        {"put 1 0 60", BEANSTALK_BAD_FORMAT},
        {"put 1 0 60 5 x", BEANSTALK_BAD_FORMAT},
        {"put 1 0 60 65536000000", BEANSTALK_BAD_FORMAT},
        {"put", BEANSTALK_UNKNOWN},
        {"quit", BEANSTALK_QUIT},
        {"quitter", BEANSTALK_QUIT},
        {"", BEANSTALK_UNKNOWN},
        {"PUT 1 0 60 5", BEANSTALK_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        if (kind_of(lines[i].line) != lines[i].kind) fail_msg("%s: %d", lines[i].line, kind_of(lines[i].line));
    }
}

static void numbers_are_what_they_say(void **state) {
    struct beanstalk_parser parser = {0};
    static const char release[] = "release 18446744073709551615 4294967295 17\r\n";
    struct beanstalk_command command = parse(&parser, release, sizeof(release) - 1, 3);
    assert_true(command.id == UINT64_MAX && command.pri == UINT32_MAX && command.delay_s == 17);
    static const char timeout[] = "reserve-with-timeout -1\r\n";
    assert_int_equal(parse(&parser, timeout, sizeof(timeout) - 1, 100).timeout_s, -1);
    static const char pause[] = "pause-tube  a  5\r\n";
    command = parse(&parser, pause, sizeof(pause) - 1, 1);
    assert_string_equal(command.tube, "a");
    assert_int_equal(command.delay_s, 5);
    static const char kick[] = "kick 99999999999\r\n";
    assert_int_equal(parse(&parser, kick, sizeof(kick) - 1, 1).bound, UINT32_MAX);
}

static void a_body_comes_in_any_pieces(void **state) {
    static const char text[] = "put 5 6 0 12\r\nreserve\r\nabc\r\nnext";
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct beanstalk_parser parser = {0};
        struct beanstalk_command command = parse(&parser, text, sizeof(text) - 5, piece);
        assert_int_equal(command.kind, BEANSTALK_PUT);
        assert_true(command.pri == 5 && command.delay_s == 6 && command.ttr_s == 1 && command.body_size == 12);
        assert_memory_equal(command.body, "reserve\r\nabc", 12);
        static const char next[] = "reserve\r\n";
        assert_int_equal(parse(&parser, next, sizeof(next) - 1, piece).kind, BEANSTALK_RESERVE);
        beanstalk_parser_end(&parser);
    }
}

static void a_body_without_its_end_is_told_and_gone(void **state) {
    struct beanstalk_parser parser = {0};
    static const char text[] = "put 0 0 1 3\r\nabcde";
    assert_int_equal(parse(&parser, text, sizeof(text) - 1, 100).kind, BEANSTALK_EXPECTED_CRLF);
    static const char next[] = "stats\r\n";
    assert_int_equal(parse(&parser, next, sizeof(next) - 1, 100).kind, BEANSTALK_STATS);
    assert_null(parser.body);
}

static int64_t held;
static bool has_room;

static bool room(void *argument, int64_t bytes) {
    if (bytes > 0 && !has_room) return false;
    held += bytes;
    return true;
}

static void what_is_too_big_or_has_no_room_is_read_and_not_kept(void **state) {
    struct beanstalk_parser parser = {.room = room};
    char body[1000];
    memset(body, 'x', sizeof(body));
    static const char big[] = "put 0 0 1 65536 trailing\r\n"; /* the size is checked before the text that follows on the
                                                                 line, as in beanstalkd */
    assert_int_equal(parse(&parser, big, sizeof(big) - 1, 7).kind, BEANSTALK_NONE);
    size_t left = BEANSTALK_JOB_MAX + 1 + 2;
    for (; left > sizeof(body); left -= sizeof(body))
        assert_int_equal(parse(&parser, body, sizeof(body), 999).kind, BEANSTALK_NONE);
    assert_int_equal(parse(&parser, body, left, 1000).kind, BEANSTALK_JOB_TOO_BIG);
    assert_int_equal(held, 0);
    static const char small[] = "put 0 0 1 2\r\nab\r\n";
    assert_int_equal(parse(&parser, small, sizeof(small) - 1, 1).kind, BEANSTALK_NO_ROOM);
    has_room = true;
    assert_int_equal(parse(&parser, small, sizeof(small) - 1, 1).kind, BEANSTALK_PUT);
    assert_int_equal(held, 4);
    beanstalk_parser_end(&parser);
    assert_int_equal(held, 0);
}

static void lines_are_bounded(void **state) {
    char text[BEANSTALK_LINE_MAX + 10];
    struct beanstalk_parser parser = {0};
    memset(text, 'a', sizeof(text));
    memcpy(text, "use ", 4);
    memcpy(text + 4 + BEANSTALK_TUBE_MAX, "\r\n", 2);
    assert_int_equal(parse(&parser, text, 4 + BEANSTALK_TUBE_MAX + 2, 9).kind, BEANSTALK_USE);
    memcpy(text + 4 + BEANSTALK_TUBE_MAX, "a\r\n", 3);
    assert_int_equal(parse(&parser, text, 4 + BEANSTALK_TUBE_MAX + 3, 9).kind, BEANSTALK_BAD_FORMAT);
    static const char next[] = "stats\r\n";
    /* Lines at the size limit and beyond it. */
    for (size_t size = BEANSTALK_LINE_MAX - 1; size <= sizeof(text); size++) {
        memset(text, 'a', sizeof(text));
        memcpy(text + size - 2, "\r\n", 2);
        enum beanstalk_kind kind = size <= BEANSTALK_LINE_MAX ? BEANSTALK_UNKNOWN : BEANSTALK_BAD_FORMAT;
        assert_int_equal(parse(&parser, text, size, 50).kind, kind);
        assert_int_equal(parse(&parser, next, sizeof(next) - 1, 50).kind, BEANSTALK_STATS);
    }
    assert_int_equal(parse(&parser, "st\0ats\r\n", 8, 1).kind, BEANSTALK_BAD_FORMAT);
    assert_int_equal(parse(&parser, "stats\n\r\n", 8, 1).kind, BEANSTALK_BAD_FORMAT); /* a LF without CR ends no line */
    assert_int_equal(parse(&parser, "sta\rts\r\n", 8, 1).kind, BEANSTALK_UNKNOWN);
}

static void ranks_keep_the_order_of_all_32_bits(void **state) {
    static const uint32_t pris[] = {0, 1, 1023, 1024, 65535, 1u << 31, UINT32_MAX - 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(pris) / sizeof(*pris); i++) {
        uint64_t rank = beanstalk_rank_ms(pris[i]);
        assert_true(beanstalk_is_rank(rank) && beanstalk_pri_of_rank(rank) == pris[i]);
        assert_true(i == 0 || rank > beanstalk_rank_ms(pris[i - 1]));
    }
    assert_false(beanstalk_is_rank(0));
    assert_false(beanstalk_is_rank(beanstalk_rank_ms(UINT32_MAX) + 1));
}

static bool parse_attribute(const char *value, struct beanstalk_job *out) {
    Tarry__Attribute attribute = TARRY__ATTRIBUTE__INIT, *attributes = &attribute;
    Tarry__Content content = TARRY__CONTENT__INIT;
    attribute.name = BEANSTALK_ATTRIBUTE;
    attribute.value = (char *)value;
    content.attributes = &attributes;
    content.n_attributes = 1;
    return beanstalk_job_parse(&content, out);
}

static void a_job_is_told_by_its_attribute(void **state) {
    const struct beanstalk_job job = {.pri = UINT32_MAX, .ttr_s = UINT32_MAX, .delay_s = UINT32_MAX};
    struct beanstalk_job out;
    char value[BEANSTALK_ATTRIBUTE_SIZE], reason[BEANSTALK_REASON_SIZE];
    beanstalk_job_format(&job, value);
    assert_true(parse_attribute(value, &out));
    assert_memory_equal(&out, &job, sizeof(job));
    static const char *const bad[] = {"",
                                      "pri=1",
                                      "pri=1 ttr=0 delay=0",
                                      "pri=4294967296 ttr=1 delay=0",
                                      "pri=1 ttr=1 delay=0x",
                                      "pri= 1 ttr=1 delay=0",
                                      "pri=00000000001 ttr=1 delay=0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_false(parse_attribute(bad[i], &out));
        assert_true(out.pri == BEANSTALK_PRI_DEFAULT && out.ttr_s == BEANSTALK_TTR_DEFAULT_S);
    }
    assert_false(beanstalk_job_parse(NULL, &out));
    uint32_t pri;
    beanstalk_reason_format(UINT32_MAX, reason);
    assert_true(beanstalk_reason_parse(reason, &pri) && pri == UINT32_MAX);
    assert_false(beanstalk_reason_parse("all attempts are used", &pri));
    assert_false(beanstalk_reason_parse("", &pri));
}

static void notes_and_tubes_are_bounded(void **state) {
    struct beanstalk_notes *notes = malloc(sizeof(*notes));
    struct beanstalk_tubes *tubes = malloc(sizeof(*tubes));
    assert_true(notes != NULL && tubes != NULL);
    beanstalk_notes_init(notes);
    for (uint64_t id = 1; id <= BEANSTALK_NOTES_MAX + 1; id++) beanstalk_note_make(notes, id)->kicks = (uint32_t)id;
    assert_int_equal(notes->count, BEANSTALK_NOTES_MAX);
    assert_null(beanstalk_note_find(notes, 1));
    assert_int_equal(beanstalk_note_find(notes, 2)->kicks, 2);
    beanstalk_note_drop(notes, 2);
    assert_null(beanstalk_note_find(notes, 2));
    beanstalk_notes_free(notes);
    beanstalk_tubes_init(tubes);
    char name[16];
    for (unsigned i = 0; i < BEANSTALK_TUBES_MAX; i++) {
        snprintf(name, sizeof(name), "tube-%u", i);
        beanstalk_tube_make(tubes, name)->using = 1;
    }
    assert_null(beanstalk_tube_make(tubes, "one more"));
    beanstalk_tube_find(tubes, "tube-7")->using = 0;
    assert_non_null(beanstalk_tube_make(tubes, "one more"));
    assert_null(beanstalk_tube_find(tubes, "tube-7"));
    beanstalk_tubes_free(tubes);
    free(notes);
    free(tubes);
}

static void yaml_is_beanstalkds(void **state) {
    struct text text = {0};
    const struct beanstalk_job_view job = {.id = 7,
                                           .tube = "t",
                                           .state = "ready",
                                           .pri = 1,
                                           .age_s = 2,
                                           .delay_s = 3,
                                           .ttr_s = 4,
                                           .time_left_s = 5,
                                           .reserves = 6,
                                           .timeouts = 8,
                                           .releases = 9,
                                           .buries = 10,
                                           .kicks = 11};
    beanstalk_text_job(&text, &job);
    assert_string_equal(text_str(&text),
                        "---\nid: 7\ntube: t\nstate: ready\npri: 1\nage: 2\ndelay: 3\nttr: 4\ntime-left: 5\n"
                        "file: 0\nreserves: 6\ntimeouts: 8\nreleases: 9\nburies: 10\nkicks: 11\n");
    text_deinit(&text);
    const struct beanstalk_tube_view tube = {.name = "t",
                                             .jobs = {1, 2, 3, 4, 5, 6},
                                             .using = 7,
                                             .watching = 8,
                                             .waiting = 9,
                                             .deletes = 10,
                                             .pauses = 11,
                                             .pause_s = 12,
                                             .pause_left_s = 13};
    beanstalk_text_tube(&text, &tube);
    assert_string_equal(text_str(&text),
                        "---\nname: t\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 2\ncurrent-jobs-reserved: 3\n"
                        "current-jobs-delayed: 4\ncurrent-jobs-buried: 5\ntotal-jobs: 6\ncurrent-using: 7\n"
                        "current-watching: 8\ncurrent-waiting: 9\ncmd-delete: 10\ncmd-pause-tube: 11\npause: 12\n"
                        "pause-time-left: 13\n");
    text_deinit(&text);
}

/* Texts are quoted if YAML would read them differently or not at all; otherwise the output equals beanstalkd 1.12. */
static void a_name_is_a_scalar_that_yaml_reads_back(void **state) {
    (void)state;
    static const char *const plain[] = {"default",     "a-b.c/d;e$f_(g)", "12",    "0",        "123456789012345",
                                        "2024-orders", "1-high",          "-file", "(x)",      "/a",
                                        "_1",          "nullable",        "yess",  "deadbeef", "+plus",
                                        ".hide"};
    static const struct {
        const char *name, *written;
    } quoted[] = {{"", "\"\""},
                  {"null", "\"null\""},
                  {"NO", "\"NO\""},
                  {"y", "\"y\""},
                  {"1.10", "\"1.10\""},
                  {"007", "\"007\""},
                  {"1e3", "\"1e3\""},
                  {"0x1f", "\"0x1f\""},
                  {"1_000", "\"1_000\""},
                  {"1234567890123456", "\"1234567890123456\""},
                  {"2026-11-27", "\"2026-11-27\""},
                  {".inf", "\".inf\""},
                  {"-.INF", "\"-.INF\""},
                  {"---", "\"---\""},
                  {"...", "\"...\""},
                  {"-", "\"-\""},
                  {"~", "\"~\""},
                  {"- x: y", "\"- x: y\""},
                  {"a #b", "\"a #b\""},
                  {"a\"b\\c", "\"a\\u0022b\\u005cc\""},
                  {"a\tb\x7f", "\"a\\u0009b\\u007f\""},
                  {"\xc3\xa4 \xf0\x9f\x98\x80", "\"\xc3\xa4 \xf0\x9f\x98\x80\""},
                  {"x\xe2\x80\xa8- y\xc2\x85z\xef\xbb\xbf", "\"x\\u2028- y\\u0085z\\ufeff\""},
                  {"\xff", "\"\\u00ff\""}};
    struct text text = {0};
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        beanstalk_text_string(&text, plain[i]);
        assert_string_equal(text_str(&text), plain[i]);
        text_deinit(&text);
    }
    for (size_t i = 0; i < sizeof(quoted) / sizeof(quoted[0]); i++) {
        beanstalk_text_string(&text, quoted[i].name);
        assert_string_equal(text_str(&text), quoted[i].written);
        text_deinit(&text);
    }
    beanstalk_text_item(&text, "- a");
    assert_string_equal(text_str(&text), "- \"- a\"\n");
    text_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_known_by_its_beginning),
        cmocka_unit_test(numbers_are_what_they_say),
        cmocka_unit_test(a_body_comes_in_any_pieces),
        cmocka_unit_test(a_body_without_its_end_is_told_and_gone),
        cmocka_unit_test(what_is_too_big_or_has_no_room_is_read_and_not_kept),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(ranks_keep_the_order_of_all_32_bits),
        cmocka_unit_test(a_job_is_told_by_its_attribute),
        cmocka_unit_test(notes_and_tubes_are_bounded),
        cmocka_unit_test(yaml_is_beanstalkds),
        cmocka_unit_test(a_name_is_a_scalar_that_yaml_reads_back),
    };
    return cmocka_run_group_tests_name("beanstalk_words", tests, NULL, NULL);
}

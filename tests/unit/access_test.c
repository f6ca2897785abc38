/* access_test.c: tokens, the file of tokens, which clients are let in, and what each may do. */
#include "access.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "token_file.h"

#define NOW_S 1000000u

static int setup(void **state) {
    (void)state;
    return sodium_init() < 0;
}

static char token_text[ACCESS_TOKEN_TEXT_SIZE];

/* Makes an access set from the rows; `%s` in them is replaced by the hash of token_text. */
static struct access_set *set_of(const char *rows) {
    uint8_t hash[ACCESS_HASH_SIZE];
    char hex[2 * ACCESS_HASH_SIZE + 1], text[4096], message[TOKEN_FILE_MESSAGE_SIZE] = "";
    struct token_file file;
    access_token_make(token_text, hash);
    sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
    int used = snprintf(text, sizeof(text), "tarry-tokens 1\n");
    const char *mark = strstr(rows, "HASH");
    size_t before = mark != NULL ? (size_t)(mark - rows) : strlen(rows);
    snprintf(text + used, sizeof(text) - (size_t)used, "%.*s%s%s", (int)before, rows, mark != NULL ? hex : "",
             mark != NULL ? mark + 4 : "");
    if (token_file_parse(text, strlen(text), &file, message) != 0) fail_msg("%s", message);
    struct access_set *set = access_set_new(file.entries, file.count);
    assert_non_null(set);
    token_file_deinit(&file);
    return set;
}

static enum access_verdict judge(const struct access_set *set, const char *token, const char *certificate,
                                 bool is_local, struct access_principal **out) {
    struct access_shown shown = {.is_local = is_local,
                                 .certificate = certificate,
                                 .token = token,
                                 .token_size = token != NULL ? strlen(token) : 0};
    return access_judge(set, &shown, NOW_S, out);
}

static void a_token_lets_in_and_a_wrong_one_does_not(void **state) {
    (void)state;
    struct access_set *set = set_of("token shop roles=produce hash=HASH\n");
    struct access_principal *who = NULL;
    assert_int_equal(judge(set, token_text, "", false, &who), ACCESS_IN);
    assert_string_equal(who->entry.name, "shop");
    access_release(who);
    char wrong[ACCESS_TOKEN_TEXT_SIZE];
    for (size_t i = 0; i < strlen(token_text);
         i++) { /* Changes one character of the token after the other; each changed token must be refused */
        memcpy(wrong, token_text, sizeof(wrong));
        wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
        assert_int_equal(judge(set, wrong, "", false, &who), ACCESS_UNKNOWN);
    }
    assert_int_equal(judge(set, "", "", false, &who), ACCESS_UNKNOWN);
    assert_int_equal(judge(set, wrong, "", true, &who),
                     ACCESS_UNKNOWN); /* a client with a wrong token is not treated as a local client */
    assert_int_equal(judge(set, NULL, "", false, &who), ACCESS_NOTHING_SHOWN);
    access_set_free(set);
}

static void a_token_expires(void **state) {
    (void)state;
    struct access_set *set = set_of("token shop roles=produce hash=HASH expires=1000001\n");
    struct access_shown shown = {.certificate = "", .token = token_text, .token_size = strlen(token_text)};
    struct access_principal *who = NULL;
    assert_int_equal(access_judge(set, &shown, 1000000, &who), ACCESS_IN);
    assert_false(access_has_expired(who, 1000000));
    assert_true(access_has_expired(who, 1000001));
    access_release(who);
    assert_int_equal(access_judge(set, &shown, 1000001, &who), ACCESS_EXPIRED);
    assert_string_equal(who->entry.name, "shop"); /* the audit names the client */
    assert_int_equal(access_next_expiry(set, 1000000), 1000001);
    assert_true(access_next_expiry(set, 1000001) == UINT64_MAX);
    access_release(who);
    access_set_free(set);
}

static void a_certificate_stands_for_a_token(void **state) {
    (void)state;
    struct access_set *set = set_of("certificate worker.example roles=consume\ntoken shop roles=read hash=HASH\n");
    struct access_principal *who = NULL;
    assert_int_equal(judge(set, NULL, "worker.example", false, &who), ACCESS_IN);
    assert_int_equal(who->entry.roles, ROLE_consume);
    access_release(who);
    assert_int_equal(
        judge(set, NULL, "shop", false, &who),
        ACCESS_NOTHING_SHOWN); /* a row with a token does not admit a client whose certificate has the row's name */
    /* If a client presents both a token and a certificate, the token decides. */
    assert_int_equal(judge(set, token_text, "worker.example", false, &who), ACCESS_IN);
    assert_string_equal(who->entry.name, "shop");
    access_release(who);
    access_set_free(set);
}

static void who_is_local_may_what_is_harmless(void **state) {
    (void)state;
    struct access_set *set = set_of("");
    struct access_principal *who = NULL;
    assert_int_equal(judge(set, NULL, "", true, &who), ACCESS_IN);
    assert_int_equal(who->entry.roles, ROLES_LOCAL);
    access_release(who);
    assert_true(access_is_owner(0, 1000));
    assert_true(access_is_owner(1000, 1000));
    assert_false(access_is_owner(1001, 1000));
    assert_true(access_is_owner(0, 65534));
    assert_false(access_is_owner(65534, 65534)); /* the kernel reports 65534 (the overflow uid) for every user that has
                                                    no number in this user namespace */
    struct access_shown owner = {.is_owner = true, .is_local = true, .certificate = ""};
    assert_int_equal(access_judge(set, &owner, NOW_S, &who), ACCESS_IN);
    assert_int_equal(who->entry.roles, ROLES_ALL);
    access_release(who);
    access_set_free(set);
    set = set_of("loopback loopback roles=read queue=a.\n");
    assert_int_equal(judge(set, NULL, "", true, &who), ACCESS_IN);
    assert_int_equal(who->entry.roles, ROLE_read);
    assert_true(access_covers(who, "a.b"));
    assert_false(access_covers(who, "b.a."));
    access_release(who);
    assert_int_equal(access_judge(set, &owner, NOW_S, &who),
                     ACCESS_IN); /* the certificate's row does not apply to the owner */
    assert_int_equal(who->entry.roles, ROLES_ALL);
    access_release(who);
    access_set_free(set);
}

static void a_set_that_is_read_anew_keeps_who_has_not_changed(void **state) {
    (void)state;
    struct access_set *before =
        set_of("certificate a roles=read\ncertificate b roles=read queue=x\ncertificate c roles=read\n");
    struct access_set *after =
        set_of("certificate a roles=read\ncertificate b roles=read queue=y\ncertificate d roles=read\n");
    struct access_principal *a = access_hold(before->principals[0]), *b = access_hold(before->principals[1]),
                            *c = access_hold(before->principals[2]), *loopback = access_hold(before->loopback);
    access_set_follow(after, before);
    access_set_free(before);
    assert_ptr_equal(access_find(after, "a"), a);
    assert_true(access_set_has(after, a));
    assert_false(access_set_has(after, b)); /* in the new set, client b has another queue prefix */
    assert_false(access_set_has(after, c)); /* in the new set, client c is missing */
    assert_true(access_set_has(after, loopback));
    access_release(a);
    access_release(b);
    access_release(c);
    struct access_set *other = set_of("loopback loopback roles=none\n");
    access_set_follow(other, after);
    access_set_free(after);
    assert_false(access_set_has(other, loopback)); /* the file now has a row for local clients */
    access_release(loopback);
    access_set_free(other);
}

static void a_rate_is_kept(void **state) {
    (void)state;
    struct access_set *set = set_of("certificate a roles=produce rate=10\n");
    struct access_principal *a = set->principals[0];
    uint64_t now_ns = 5000000000;
    for (int i = 0; i < 10; i++) assert_true(access_take_rate(a, 1, now_ns));
    assert_false(access_take_rate(a, 1, now_ns));
    assert_false(access_take_rate(a, 1, now_ns + 99000000));
    assert_true(access_take_rate(a, 1, now_ns + 100000000));
    assert_false(access_take_rate(a, 1, now_ns + 100000000));
    assert_true(
        access_take_rate(a, 100, now_ns + 2000000000)); /* a client that was idle before may send a large commit */
    assert_false(access_take_rate(
        a, 1,
        now_ns + 10000000000)); /* after the large commit, the client must wait until its rate allows another one */
    assert_true(access_take_rate(a, 1, now_ns + 11200000000));
    access_set_free(set);
}

static void what_is_denied_is_told(void **state) {
    (void)state;
    struct access_set *set = set_of("token shop roles=produce,read hash=HASH queue=orders. queue=mail\n");
    const struct access_principal *shop = access_find(set, "shop");
    char sentence[ACCESS_SENTENCE_SIZE] = "";
    assert_true(access_may(shop, access_rule_of_op(TARRY__OP__OP_SCHEDULE), "orders.new", sentence));
    assert_true(access_may(shop, access_rule_of_op(TARRY__OP__OP_SCHEDULE), "mail", sentence));
    assert_true(access_may(shop, access_rule_of_op(TARRY__OP__OP_CANCEL), NULL, sentence));
    assert_false(access_may(shop, access_rule_of_op(TARRY__OP__OP_SCHEDULE), "orders", sentence));
    assert_string_equal(sentence, "commit: schedule: queue orders is not one of the queues that shop may use");
    assert_false(access_may(shop, access_rule_of_op(TARRY__OP__OP_QUEUE_PURGE), "orders.new", sentence));
    assert_string_equal(sentence, "commit: purge a queue: shop lacks the role operate (queue orders.new)");
    Tarry__Request audit = TARRY__REQUEST__INIT;
    audit.body_case = TARRY__REQUEST__BODY_AUDIT;
    assert_false(access_may(shop, access_rule_of_request(&audit), NULL, sentence));
    assert_string_equal(
        sentence,
        "audit, history: this request concerns all queues, but shop may use only the queues with its prefixes");
    access_set_free(set);
}

static void nobody_takes_anothers_name(void **state) {
    (void)state;
    struct access_set *set = set_of("token shop roles=read hash=HASH\ncertificate worker roles=read\n");
    const struct access_principal *shop = access_find(set, "shop");
    assert_true(access_is_claimed(set, shop, "worker"));
    assert_true(access_is_claimed(set, shop, "worker (host:12)"));
    assert_false(access_is_claimed(set, shop, "shop"));
    assert_false(access_is_claimed(set, shop, "workers"));
    assert_false(access_is_claimed(set, shop, "host:12 (worker)"));
    assert_false(access_is_claimed(set, shop, ""));
    access_set_free(set);
    /* A name of maximal length is protected like any other name. */
    char row[256], name[ACCESS_NAME_SIZE_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[ACCESS_NAME_SIZE_MAX] = '\0';
    snprintf(row, sizeof row, "token shop roles=read hash=HASH\ncertificate %s roles=read\n", name);
    set = set_of(row);
    assert_true(access_is_claimed(set, access_find(set, "shop"), name));
    name[ACCESS_NAME_SIZE_MAX] = 'n';
    name[ACCESS_NAME_SIZE_MAX + 1] = '\0';
    assert_false(access_is_claimed(set, access_find(set, "shop"), name));
    access_set_free(set);
}

/* The broker's own principal belongs to no client, whatever name or credentials it sends. */
static void the_brokers_own_queues_are_closed_to_all_clients(void **state) {
    (void)state;
    struct access_set *set = set_of("token all roles=produce,consume,read,operate,admin,peer hash=HASH\n"
                                    "certificate mine roles=produce,consume,read,operate,admin queue=tarry.\n");
    const struct access_principal *const clients[] = {access_find(set, "all"), access_find(set, "mine"), set->owner,
                                                      set->loopback};
    char sentence[ACCESS_SENTENCE_SIZE];
    size_t count = 0, shown = 0, kept = 0;
    const struct access_rule *rules = access_rules(&count);
    for (size_t i = 0; i < count; i++) {
        const struct access_rule *rule = &rules[i];
        const struct access_rule open = {rule->name, ROLES_NONE, rule->reach};
        if (rule->reach == REACH_BROKER) { /* a request that no client may make, whatever its roles */
            for (size_t c = 0; c < 4; c++) assert_false(access_may(clients[c], &open, NULL, sentence));
            assert_true(access_may(set->broker, rule, NULL, sentence));
            kept++;
        }
        if (rule->reach == REACH_ALL || rule->reach == REACH_BROKER) continue; /* these requests name no queue */
        for (size_t c = 0; c < 4; c++) {
            bool may = access_may(clients[c], &open, "tarry.once", sentence);
            assert_int_equal(may, rule->reach == REACH_SHOWN);
            if (may) continue;
            assert_non_null(strstr(sentence, rule->name));
            assert_non_null(strstr(sentence, "queue tarry.once is reserved for the broker"));
            assert_non_null(strstr(sentence, "\"tarry.\""));
        }
        assert_true(access_may(clients[0], &open, "tarry", sentence));
        assert_true(access_may(set->broker, rule, "tarry.once", sentence));
        shown += rule->reach == REACH_SHOWN;
    }
    assert_int_equal(kept, 2);
    /* Queues, stats, calendar, consumers and recurrences leave out queues that the caller may not see. */
    assert_int_equal(shown, 5);
    access_set_free(set);
}

static void no_client_is_the_broker(void **state) {
    (void)state;
    struct access_set *set = set_of("token shop roles=read hash=HASH\n"),
                      *next = set_of("token shop roles=read hash=HASH\n");
    struct access_principal *client = NULL, *broker = set->broker;
    assert_non_null(access_name_problem(ACCESS_BROKER_NAME, strlen(ACCESS_BROKER_NAME)));
    assert_int_equal(broker->entry.kind, KIND_BROKER);
    assert_string_equal(access_record_name(broker), ACCESS_BROKER_NAME);
    assert_true(access_is_claimed(set, access_find(set, "shop"), ACCESS_BROKER_NAME));
    assert_int_equal(judge(set, NULL, ACCESS_BROKER_NAME, true, &client), ACCESS_IN);
    assert_ptr_equal(client, set->loopback);
    access_release(client);
    assert_int_equal(judge(set, NULL, ACCESS_BROKER_NAME, false, &client), ACCESS_NOTHING_SHOWN);
    access_set_follow(next,
                      set); /* reading the file again does not affect the broker's own requests that are in flight */
    assert_ptr_equal(next->broker, broker);
    assert_true(access_set_has(next, broker));
    access_set_free(set);
    access_set_free(next);
}

/* ---- the file */

static void what_is_written_is_read(void **state) {
    (void)state;
    static const char rows[] = "tarry-tokens 1\n"
                               "# 'tarry token' writes this file; it does not keep comments.\n"
                               "certificate w roles=none queue=a%20b%25%20 queue=\xc3\xa4 connections=1 pending=7\n"
                               "loopback loopback roles=produce,operate expires=5\n";
    struct token_file file;
    char message[TOKEN_FILE_MESSAGE_SIZE] = "";
    size_t size = 0;
    if (token_file_parse(rows, strlen(rows), &file, message) != 0) fail_msg("%s", message);
    assert_int_equal(file.count, 2);
    assert_string_equal(file.entries[0].prefixes, "a b% ");
    char *text = token_file_format(&file, &size);
    assert_int_equal(size, strlen(rows));
    assert_memory_equal(text, rows, size);
    free(text);
    assert_true(token_file_remove(&file, "w"));
    assert_false(token_file_remove(&file, "w"));
    assert_int_equal(file.count, 1);
    assert_string_equal(file.entries[0].name, "loopback");
    token_file_deinit(&file);
}

#define HASH "hash=0000000000000000000000000000000000000000000000000000000000000000"
static const struct {
    const char *text, *sentence;
} wrong_files[] = {
    {"", "line 1: the file does not begin with \"tarry-tokens 1\", so it is not a file of tokens"},
    {"tarry-tokens 2\n",
     "line 1: the file has the format \"tarry-tokens 2\", but this version of Tarry reads only \"tarry-tokens 1\""},
    {"tarry-tokens 1", "line 1: the last line is missing: the file was cut off"},
    {"tarry-tokens 1\ntoken a roles=read " HASH "\ntoken b roles=re",
     "line 3: the last line is missing: the file was cut off"},
    {"tarry-tokens 1\nperson a roles=read\n", "line 2: unknown kind of row \"person\""},
    /* The error message shows 60 of the token's 61 bytes. */
    {"tarry-tokens 1\n1234567890123456789012345678901234567890123456789012345678901 a\n",
     "line 2: unknown kind of row \"123456789012345678901234567890123456789012345678901234567890\""},
    {"tarry-tokens 1\n\033]0;a\a b\n", "line 2: unknown kind of row \"?]0;a?\""},
    {"tarry-tokens 1\ntoken a roles=read\n", "line 2: hash is missing"},
    {"tarry-tokens 1\ncertificate a roles=read " HASH "\n", "line 2: only rows of kind token may have a hash"},
    {"tarry-tokens 1\ntoken a " HASH "\n", "line 2: roles is missing"},
    {"tarry-tokens 1\ntoken a roles= " HASH "\n",
     "line 2: roles= is empty; write roles=none for a principal without roles"},
    {"tarry-tokens 1\ntoken a roles=root " HASH "\n", "line 2: unknown role \"root\""},
    {"tarry-tokens 1\ntoken a roles=read,read " HASH "\n", "line 2: the role read is given twice"},
    {"tarry-tokens 1\ntoken a roles=read roles=admin " HASH "\n", "line 2: roles is given twice"},
    {"tarry-tokens 1\ntoken a roles=read hash=00\n", "line 2: hash must have 64 hexadecimal digits"},
    {"tarry-tokens 1\ntoken a/b roles=read " HASH "\n", "line 2: a name may contain only letters, digits and . _ - @"},
    {"tarry-tokens 1\ntoken owner roles=read " HASH "\n", "line 2: the name owner is reserved for the broker"},
    {"tarry-tokens 1\nloopback other roles=read\n", "line 2: the row of kind loopback must have the name loopback"},
    {"tarry-tokens 1\nloopback loopback roles=admin\n",
     "line 2: loopback cannot have the roles admin and peer: they always need a token"},
    {"tarry-tokens 1\ncertificate a roles=read\n\ncertificate a roles=read\n",
     "line 4: the file already has a principal named a"},
    {"tarry-tokens 1\ncertificate a roles=read expires=0\n", "line 2: expires is not a time in Unix seconds: \"0\""},
    {"tarry-tokens 1\ncertificate a roles=read expires=-1\n", "line 2: expires is not a time in Unix seconds: \"-1\""},
    {"tarry-tokens 1\ncertificate a roles=read rate=0\n", "line 2: rate is not a number from 1 to 1000000: \"0\""},
    {"tarry-tokens 1\ncertificate a roles=read rat=1\n", "line 2: unknown field \"rat\""},
    {"tarry-tokens 1\ncertificate a roles=read queue=\n",
     "line 2: a queue prefix must not be empty; omit it to allow all queues"},
    {"tarry-tokens 1\ncertificate a roles=read queue=%4\n",
     "line 2: queue contains a % that does not begin a necessary %XX escape"},
    {"tarry-tokens 1\ncertificate a roles=read queue=%41\n",
     "line 2: queue contains a % that does not begin a necessary %XX escape"},
    {"tarry-tokens 1\ncertificate a roles=read queue=%00\n", "line 2: a queue prefix must not contain a 0 byte"},
};

static void a_wrong_file_is_refused_with_its_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(wrong_files) / sizeof(*wrong_files); i++) {
        struct token_file file = {0};
        char message[TOKEN_FILE_MESSAGE_SIZE] = "";
        assert_int_equal(token_file_parse(wrong_files[i].text, strlen(wrong_files[i].text), &file, message), 1);
        assert_string_equal(message, wrong_files[i].sentence);
        assert_null(file.entries);
    }
}

/* ---- failures */

static void who_fails_often_is_told_to_stop(void **state) {
    (void)state;
    struct failures *failures = calloc(1, sizeof(*failures));
    assert_non_null(failures);
    for (unsigned i = 0; i < FAILURES_MAX; i++) assert_false(failures_add(failures, "192.0.2.7:1000", 100 + i));
    assert_true(
        failures_add(failures, "192.0.2.7:1001", 159)); /* failures are counted per address, whatever the port */
    assert_false(failures_add(failures, "192.0.2.8:1000", 159));
    /* A new time window begins, so counting starts again. */
    assert_false(failures_add(failures, "192.0.2.7:1000", 160));
    assert_int_equal(failures->total, FAILURES_MAX + 3);
    assert_int_equal(failures->limited, 1);
    /* When the table is full, only the address that was quiet for longest is removed. */
    for (unsigned i = 0; i < FAILURES_ADDRESSES; i++) {
        char peer[32];
        snprintf(peer, sizeof(peer), "10.0.%u.%u:1", i / 256, i % 256);
        assert_false(failures_add(failures, peer, 200 + i));
    }
    assert_false(failures_add(failures, "10.0.3.255:1", 1300));
    free(failures);
}

/* While a token is renewed, its principal has two rows. A set that was read again must find each of them. */
static void a_renewed_token_has_two_rows(void **state) {
    (void)state;
    char message[TOKEN_FILE_MESSAGE_SIZE], former[ACCESS_TOKEN_TEXT_SIZE], next[ACCESS_TOKEN_TEXT_SIZE];
    uint8_t hash[ACCESS_HASH_SIZE], other[ACCESS_HASH_SIZE];
    struct access_entry entry = {.name = "shop", .kind = KIND_TOKEN, .roles = ROLE_read};
    struct access_principal *who = NULL, *again = NULL;
    struct token_file file = {0}, read = {0};
    access_token_make(former, entry.hash);
    access_token_make(next, hash);
    access_token_make(token_text, other);
    assert_true(access_entry_add_prefix(&entry, "orders.", 7));
    assert_int_equal(token_file_add(&file, &entry, message), 0);
    assert_int_equal(token_file_renew(&file, "shop", hash, 0, NOW_S + 10, NOW_S, message), 0);
    assert_int_equal(token_file_renew(&file, "shop", other, 0, NOW_S + 20, NOW_S, message), 1);
    assert_non_null(strstr(message, "two valid tokens"));
    assert_int_equal(token_file_renew(&file, "mail", other, 0, NOW_S + 20, NOW_S, message), 1);
    assert_non_null(strstr(message, "no principal named mail"));

    size_t size = 0;
    char *text = token_file_format(&file, &size);
    assert_int_equal(token_file_parse(text, size, &read, message), 0);
    assert_int_equal(read.count, 2);
    struct access_set *set = access_set_new(read.entries, read.count);
    token_file_deinit(&read);
    assert_int_equal(token_file_parse(text, size, &read, message), 0);
    struct access_set *same = access_set_new(read.entries, read.count);
    token_file_deinit(&read);
    free(text);

    assert_int_equal(judge(set, former, "", false, &who), ACCESS_IN);
    assert_int_equal(judge(set, next, "", false, &again), ACCESS_IN);
    assert_ptr_not_equal(who, again);
    assert_int_equal(again->entry.prefix_count, 1);
    assert_true(access_has_expired(who, NOW_S + 10) && !access_has_expired(again, NOW_S + 10));
    access_set_follow(same, set);
    assert_true(
        access_set_has(same, who) &&
        access_set_has(same,
                       again)); /* both connections may stay open, because each of their rows is still in the file */
    access_release(who);
    access_release(again);
    access_set_free(set);
    access_set_free(same);

    /* The former row has expired, so the next renewal removes it from the file. */
    assert_int_equal(token_file_renew(&file, "shop", other, 0, NOW_S + 20, NOW_S + 11, message), 0);
    assert_int_equal(file.count, 2);
    assert_true(token_file_remove(&file, "shop"));
    assert_int_equal(file.count, 0);
    token_file_deinit(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_lets_in_and_a_wrong_one_does_not),
        cmocka_unit_test(a_token_expires),
        cmocka_unit_test(a_certificate_stands_for_a_token),
        cmocka_unit_test(who_is_local_may_what_is_harmless),
        cmocka_unit_test(a_set_that_is_read_anew_keeps_who_has_not_changed),
        cmocka_unit_test(a_rate_is_kept),
        cmocka_unit_test(what_is_denied_is_told),
        cmocka_unit_test(nobody_takes_anothers_name),
        cmocka_unit_test(the_brokers_own_queues_are_closed_to_all_clients),
        cmocka_unit_test(no_client_is_the_broker),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_renewed_token_has_two_rows),
        cmocka_unit_test(a_wrong_file_is_refused_with_its_line),
        cmocka_unit_test(who_fails_often_is_told_to_stop),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

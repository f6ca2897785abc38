/* coordinator_words_test.c: messages of ZooKeeper, its client library and etcd become a sentence that says what is
 * wrong, with the value, and what to do; none of the library's own words remain. A table of all known messages. */
#include "etcd_words.h"
#include "zookeeper_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <zookeeper/zookeeper.h>

#define SOCKET "Socket 10.0.0.1:2181 zk retcode="

static void assert_said(const char *said, const char *const words[3]) {
    for (size_t i = 0; i < 3 && words[i] != NULL; i++)
        if (strstr(said, words[i]) == NULL) fail_msg("'%s' is not in '%s'", words[i], said);
}

static void why_there_is_no_connection(void **state) {
    const struct {
        const char *line;
        const char *words[3];
    } table[] = {
        {SOCKET "-4, errno=111(Connection refused): server refused to accept the client",
         {"nobody listens at 10.0.0.1:2181 (Connection refused)", "is ZooKeeper running there"}},
        {SOCKET "-4, errno=113(No route to host): server refused to accept the client",
         {"this host cannot reach 10.0.0.1:2181 (No route to host)", "is the address right"}},
        {SOCKET "-4, errno=101(Network is unreachable): connect() call failed",
         {"this host cannot reach 10.0.0.1:2181 (Network is unreachable)", "is the address right"}},
        {SOCKET "-7, errno=110(Connection timed out): connection to 10.0.0.1:2181 timed out (exceeded timeout by 1ms)",
         {"10.0.0.1:2181 does not answer", "stopped or cut off", "another program"}},
        {SOCKET "-4, errno=112(Host is down): failed while receiving a server response",
         {"10.0.0.1:2181 ended the connection", "majority", "maxClientCnxns"}},
        {SOCKET "-4, errno=32(Broken pipe): failed while flushing send queue",
         {"10.0.0.1:2181 ended the connection", "is it ZooKeeper that listens there"}},
        {SOCKET "-2, errno=4(Interrupted system call): unexpected server response: expected 0x5, but received 0x9",
         {"10.0.0.1:2181 does not answer as ZooKeeper does", "another server"}},
        {SOCKET
         "-115, errno=11(Resource temporarily unavailable): Authentication scheme digest failed. Connection closed.",
         {"10.0.0.1:2181 refuses the credentials", "--coordinator-credentials"}},
        {SOCKET "-112, errno=116(Stale file handle): sessionId=0x1000 has expired.",
         {"10.0.0.1:2181 let the session expire"}},
        {"something that no version says yet",
         {"its client library reports 'something that no version says yet'", "is ZooKeeper running"}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char out[ZOOKEEPER_WHY_SIZE];
        zookeeper_why(table[i].line, out);
        assert_said(out, table[i].words);
        assert_null(strstr(out, "retcode"));
        assert_null(strstr(out, "errno"));
        assert_null(strstr(out, "Host is down"));
    }
}

static void what_a_result_means(void **state) {
    const struct {
        int rc;
        const char *words[3];
    } table[] = {
        {ZCONNECTIONLOSS, {"the connection was lost before the answer came"}},
        {ZOPERATIONTIMEOUT, {"the connection was lost before the answer came"}},
        {ZSESSIONEXPIRED, {"the session ended before the answer came"}},
        {ZCLOSING, {"the session ended before the answer came"}},
        {ZSESSIONMOVED, {"moved to another server"}},
        {ZNOCHILDRENFOREPHEMERALS, {"is ephemeral", "name another path"}},
        {ZINVALIDACL, {"does not know the digest scheme", "enable digest", "--coordinator-credentials"}},
        {ZAUTHFAILED, {"refuses the credentials", "correct --coordinator-credentials"}},
        {ZSESSIONCLOSEDREQUIRESASLAUTH, {"demands SASL", "sessionRequireClientSASLAuth=false"}},
        {ZNOTREADONLY, {"lost the majority", "start the other servers"}},
        {ZTHROTTLEDOP, {"overloaded", "reduce its clients"}},
        {-125, {"quota of that path is used up", "setquota"}},
        {ZMARSHALLINGERROR, {"out of memory", "another server"}},
        {ZDATAINCONSISTENCY, {"unexpected answer", "(-3)", "server's log"}},
    };
    char out[COORDINATOR_MESSAGE_SIZE];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        zookeeper_explain(table[i].rc, "/tarry/pair/record", false, out);
        assert_said(out, table[i].words);
        assert_non_null(strstr(out, "coordinator: ZooKeeper, /tarry/pair/record: "));
        bool is_expected = table[i].rc != ZDATAINCONSISTENCY;
        if (is_expected) assert_null(strstr(out, zerror(table[i].rc)));
    }
    zookeeper_explain(ZNOAUTH, "/tarry/pair/record", true, out);
    assert_said(out, (const char *const[3]){"ACL of /tarry/pair/record", "with its credentials", "setAcl"});
    zookeeper_explain(ZNOAUTH, "/tarry/pair/record", false, out);
    assert_said(out, (const char *const[3]){"without credentials", "give it the credentials"});
}

static void why_credentials_were_not_taken(void **state) {
    char out[ZOOKEEPER_WHY_SIZE];
    zookeeper_why_not_entered(ZINVALIDSTATE, out);
    assert_said(out, (const char *const[3]){"the session ended before it took the credentials"});
    zookeeper_why_not_entered(ZBADARGUMENTS, out);
    assert_said(out, (const char *const[3]){"-8)", "correct --coordinator-credentials"});
}

/* A server's message may come from an attacker, so the line has a maximum length. */
static void no_line_is_too_long(void **state) {
    char line[1024], out[ZOOKEEPER_WHY_SIZE];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    zookeeper_why(line, out);
    assert_true(strlen(out) < ZOOKEEPER_WHY_SIZE);
    memcpy(line, "Socket ", 7);
    zookeeper_why(line, out);
    assert_non_null(strstr(out, "its client library reports"));
}

/* In etcd's refusals, the text is in the field `error` up to version 3.4 (Debian 12). In later versions (Debian 13) it
 * is in `message`, with a gRPC code in `code`. */
static void what_etcd_refuses_is_understood_of_each_release(void **state) {
    static const struct {
        const char *answer;
        enum etcd_refusal refusal;
    } table[] = {
        {"{\"error\":\"etcdserver: invalid auth token\",\"message\":\"etcdserver: invalid auth token\",\"code\":16}",
         ETCD_TOKEN_OLD},
        {"{\"code\":16, \"message\":\"etcdserver: invalid auth token\"}", ETCD_TOKEN_OLD},
        {"{\"code\":3, \"message\":\"etcdserver: user name is empty\"}", ETCD_NO_TOKEN},
        {"{\"code\":3, \"message\":\"etcdserver: authentication failed, invalid user ID or password\"}",
         ETCD_WRONG_USER},
        {"{\"code\":8, \"message\":\"etcdserver: mvcc: database space exceeded\",\"details\":[]}", ETCD_NO_ROOM},
        {"{\"code\":14, \"message\":\"etcdserver: leader changed\"}", ETCD_OTHER},
    };
    char said[COORDINATOR_MESSAGE_SIZE];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(etcd_take_refusal(400, table[i].answer, strlen(table[i].answer), said), table[i].refusal);
        assert_said(said, (const char *const[3]){"etcdserver: "});
    }
    const char *const others[] = {"{\"message\":\"invalid auth token\"}",
                                  "{\"code\":\"16\",\"message\":\"invalid auth token\"}", "[]", "invalid auth token"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(etcd_take_refusal(401, others[i], strlen(others[i]), said), ETCD_OTHER);
        assert_said(said, (const char *const[3]){"HTTP status 401", "another server"});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why_there_is_no_connection),
        cmocka_unit_test(what_a_result_means),
        cmocka_unit_test(why_credentials_were_not_taken),
        cmocka_unit_test(no_line_is_too_long),
        cmocka_unit_test(what_etcd_refuses_is_understood_of_each_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

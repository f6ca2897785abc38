/* zookeeper_words.c: see zookeeper_words.h. Messages and error codes were checked in the sources of ZooKeeper's
 * client 3.8. */
#include "zookeeper_words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "coordinator_backend.h"

#define SERVER_SIZE 128
/* Error code of 3.9, which the headers of 3.8 lack. */
#define QUOTA_EXCEEDED (-125)

/* ---- no connection */

/* Parts of a line of the client's log, such as "Socket 10.0.0.1:2181 zk retcode=-4, errno=111(Connection refused):
 * server refused to accept the client". */
struct cause {
    char server[SERVER_SIZE];
    int rc;
    int error; /* errno */
    const char *what;
};

static bool take_cause(const char *line, struct cause *out) {
    *out = (struct cause){.rc = 0};
    if (sscanf(line, "Socket %127s zk retcode=%d, errno=%d", out->server, &out->rc, &out->error) != 3) return false;
    out->what = strstr(line, "): ");
    if (out->what == NULL) return false;
    out->what += 3;
    return true;
}

static bool is_about(const struct cause *cause, const char *words) {
    return strstr(cause->what, words) != NULL;
}

/* Returns a format string for the error message. Its arguments are the server and the text of errno. */
static const char *format_of(const struct cause *cause) {
    bool is_connecting = is_about(cause, "refused to accept") || is_about(cause, "call failed");
    if (cause->rc == ZAUTHFAILED || is_about(cause, "Authentication scheme"))
        return "%s refuses the credentials; correct --coordinator-credentials";
    if (cause->rc == ZSESSIONEXPIRED) return "%s let the session expire; this node opens another";
    if (cause->rc == ZOPERATIONTIMEOUT || is_about(cause, "timed out"))
        return "%s does not answer; is it stopped or cut off, or does another program listen there?";
    if (is_about(cause, "unexpected server response"))
        return "%s does not answer as ZooKeeper does; does another server listen at that port?";
    if (is_connecting && cause->error == ECONNREFUSED)
        return "nobody listens at %s (%s); is ZooKeeper running there, and is the port right?";
    if (is_connecting) return "this host cannot reach %s (%s); is the address right, and does a firewall block it?";
    /* ZooKeeper's client reports "Host is down" when a server closes the connection, which would mislead. */
    return "%s ended the connection; has ZooKeeper a majority of its servers, does its maxClientCnxns allow the "
           "connections of this host, and is it ZooKeeper that listens there?";
}

void zookeeper_why(const char *line, char out[ZOOKEEPER_WHY_SIZE]) {
    struct cause cause;
    if (take_cause(line, &cause)) // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral)
        snprintf(out, ZOOKEEPER_WHY_SIZE, format_of(&cause), cause.server, strerror(cause.error));
    else
        snprintf(out, ZOOKEEPER_WHY_SIZE,
                 "its client library reports '%.256s'; is ZooKeeper running there, and can this host reach it?", line);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* Returns the meaning of a result code; NULL: an unexpected code. */
static const char *meaning_of(int rc) {
    switch (rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
        return "the connection was lost before the answer came";
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE:
    case ZCLOSING:
        return "the session ended before the answer came";
    case ZSESSIONMOVED:
        return "the session moved to another server before the answer came";
    case ZNOCHILDRENFOREPHEMERALS:
        return "the znode above it is ephemeral and cannot have children; name another path in --coordinator";
    case ZINVALIDACL:
        return "the server does not know the digest scheme of these credentials; enable digest authentication there, "
               "or "
               "remove --coordinator-credentials";
    case ZAUTHFAILED:
        return "the server refuses the credentials; correct --coordinator-credentials";
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return "the server demands SASL, which Tarry does not speak; set sessionRequireClientSASLAuth=false there";
    case ZNOTREADONLY:
        return "the server has lost the majority of its ensemble and is read-only; start the other servers";
    case ZTHROTTLEDOP:
        return "the server is overloaded and dropped the request; reduce its clients or give it more CPU";
    case QUOTA_EXCEEDED:
        return "the quota of that path is used up; raise it with setquota in zkCli.sh";
    case ZMARSHALLINGERROR:
        return "this node is out of memory, or the answer is not one that ZooKeeper sends; does another server listen "
               "at "
               "that port?";
    default:
        return NULL;
    }
}

void zookeeper_explain(int rc, const char *path, bool has_credentials, char out[COORDINATOR_MESSAGE_SIZE]) {
    const char *meaning = meaning_of(rc);
    if (rc == ZNOAUTH)
        coordinator_refuse(out,
                           "coordinator: ZooKeeper's ACL of %s, or of a znode above it, denies this node access %s; "
                           "give it the credentials that the ACL names, or change the ACL with setAcl in zkCli.sh",
                           path, has_credentials ? "with its credentials" : "without credentials");
    else if (meaning != NULL)
        coordinator_refuse(out, "coordinator: ZooKeeper, %s: %s", path, meaning);
    else
        coordinator_refuse(out, "coordinator: ZooKeeper, %s: unexpected answer '%s' (%d); read the server's log", path,
                           zerror(rc), rc);
}

void zookeeper_why_not_entered(int rc, char out[ZOOKEEPER_WHY_SIZE]) {
    if (rc == ZINVALIDSTATE)
        snprintf(out, ZOOKEEPER_WHY_SIZE, "the session ended before it took the credentials; this node opens another");
    else
        snprintf(out, ZOOKEEPER_WHY_SIZE,
                 "its client library refuses the credentials ('%s', %d); correct --coordinator-credentials", zerror(rc),
                 rc);
}

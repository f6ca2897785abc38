package tarry;

import java.util.Set;

/** One request, repeated until it gets a reply. */
final class Ask {
    private static final long BACKOFF_MIN_MS = 5, BACKOFF_MAX_MS = 100; // after BUSY and STOPPING, doubled each time
    private static final Set<String> RETRIED = Set.of("BUSY", "STOPPING", "NOT_PRIMARY", "FAILED");
    private final Link link;
    private final byte[] data;
    private final boolean changes;
    private String said = "";
    int unanswered; // sends that may have been executed
    Connection connection;

    Ask(Link link, byte[] data, boolean changes) {
        this.link = link;
        this.data = data;
        this.changes = changes;
    }

    /** Returns the reply, whatever its code. Throws Unavailable or OutcomeUnknown at the time `until`. After that the caller
     * may call run again, which sends the same request. */
    Wire.In run(long until) {
        try {
            return repeat(until);
        } catch (Clock.TimedOut late) {
            String why = said.isEmpty() ? link.explain() : said;
            if (changes && unanswered > 0) throw new TarryException.OutcomeUnknown("no answer in time, and it may have taken effect: " + why);
            throw new TarryException.Unavailable("nothing was done in time: " + why);
        }
    }

    private Wire.In repeat(long until) throws Clock.TimedOut {
        for (long backoffMs = BACKOFF_MIN_MS;; backoffMs = Math.min(2 * backoffMs, BACKOFF_MAX_MS)) {
            connection = link.ready(until);
            unanswered++;
            Wire.In reply;
            try {
                reply = connection.exchange(data, until);
            } catch (Connection.Lost lost) {
                continue;
            }
            String code = reply.flag(Wire.Reply.FOLLOWER) ? "NOT_PRIMARY" : Wire.code(reply.number(Wire.Reply.CODE)), message = reply.text(Wire.Reply.MESSAGE);
            if (!RETRIED.contains(code)) {
                link.useful(connection);
                return reply;
            }
            said = link.name(connection.index) + ": " + (message.isEmpty() ? code.toLowerCase() : message);
            if (!code.equals("FAILED")) unanswered--; // this send was not executed
            if (code.equals("NOT_PRIMARY")) link.leave(connection, reply.text(Wire.Reply.PRIMARY), message.isEmpty() ? "not the primary" : message);
            else Clock.sleep(Math.max(backoffMs, reply.number(Wire.Reply.RETRY_MS)), until);
        }
    }

    static TarryException refusal(Wire.In reply) {
        return new TarryException(Wire.code(reply.number(Wire.Reply.CODE)), reply.text(Wire.Reply.MESSAGE), null);
    }
}

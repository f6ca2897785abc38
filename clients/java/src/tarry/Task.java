package tarry;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import tarry.Wire.Out;

/** One delivery of a task. */
public final class Task {
    private final long id, dueMs, deliveredMs;
    private final int attempt, deliveries, priority;
    private final String queue, key;
    private final Content content;
    final Token token;
    final long leaseMs;
    volatile boolean isLeaseLost;

    /** A lease's token. It grows with every lease of the task. */
    record Token(long epoch, long position) {
        boolean isOlderThan(Token other) {
            return epoch != other.epoch ? epoch < other.epoch : Long.compareUnsigned(position, other.position) < 0;
        }
    }

    Task(Wire.In in, long deliveredMs) {
        id = in.number(Wire.DeliveredTask.ID);
        queue = in.text(Wire.DeliveredTask.QUEUE);
        String text = in.text(Wire.DeliveredTask.KEY);
        key = text.isEmpty() ? null : text;
        dueMs = in.number(Wire.DeliveredTask.DUE_MS);
        this.deliveredMs = deliveredMs;
        attempt = (int) in.number(Wire.DeliveredTask.ATTEMPT);
        deliveries = (int) in.number(Wire.DeliveredTask.DELIVERIES);
        priority = (int) in.number(Wire.DeliveredTask.PRIORITY);
        content = Content.of(in.bytes(Wire.DeliveredTask.CONTENT));
        Wire.In lease = in.message(Wire.DeliveredTask.TOKEN);
        token = new Token(lease.number(Wire.Token.EPOCH), lease.number(Wire.Token.POSITION));
        leaseMs = Math.max(1, in.number(Wire.DeliveredTask.LEASE_DEADLINE_MS) - deliveredMs);
    }

    public long id() { return id; }
    public String queue() { return queue; }
    /** Returns the key; null: the task has none. */
    public String key() { return key; }
    public byte[] body() { return content.body().clone(); }
    public String text() { return content.text(); }
    public Map<String, String> attributes() { return content.attributes(); }
    public long dueMs() { return dueMs; }
    public long deliveredMs() { return deliveredMs; }
    /** Returns the number of this delivery attempt, from 1. */
    public int attempt() { return attempt; }
    public int deliveries() { return deliveries; }
    public int priority() { return priority; }
    /** Returns the lease's token, "epoch-position". Later leases have greater tokens. */
    public String token() { return token.epoch() + "-" + Long.toUnsignedString(token.position()); }
    /** Returns whether the lease was lost: another consumer may have the task now. */
    public boolean isLeaseLost() { return isLeaseLost; }

    @Override
    public String toString() {
        return queue + " " + (key == null ? Long.toUnsignedString(id) : key) + " attempt " + attempt;
    }

    Map<String, String> trace() {
        Map<String, String> trace = new HashMap<>();
        for (String name : Tarry.TRACE_NAMES) if (attributes().containsKey(name)) trace.put(name, attributes().get(name));
        return trace;
    }

    private Out lease() {
        return new Out().number(Wire.Ack.ID, id).message(Wire.Ack.TOKEN,
            new Out().number(Wire.Token.EPOCH, token.epoch()).number(Wire.Token.POSITION, token.position()));
    }

    byte[] ack() {
        return new Out().message(Wire.Op.ACK, lease()).packed();
    }

    byte[] extend() {
        return new Out().message(Wire.Op.EXTEND, lease().number(Wire.Extend.LEASE_MS, leaseMs)).packed();
    }

    byte[] nack(String reason, Duration delay, boolean isDead) {
        Out nack = lease().flag(Wire.Nack.HAS_DELAY, delay != null).number(Wire.Nack.DELAY_MS, delay == null ? 0 : Schedule.milliseconds("delay", delay));
        return new Out().message(Wire.Op.NACK, nack.flag(Wire.Nack.DEAD, isDead).text(Wire.Nack.REASON, Schedule.reason(reason))).packed();
    }

    byte[] release(Duration delay) {
        Out release = lease();
        if (delay != null && !delay.isZero()) release.message(Wire.Release.WHEN, Schedule.when(delay, null));
        return new Out().message(Wire.Op.RELEASE, release).packed();
    }
}

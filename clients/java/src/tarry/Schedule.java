package tarry;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import tarry.Wire.Out;

/** A task to be scheduled: after {@link #delay}, or {@link #at} a time. */
public final class Schedule {
    private static final int REASON_SIZE_MAX = 255;
    private static final List<String> CONFLICTS = List.of("reject", "replace", "earlier", "later");
    private final String queue;
    private final Map<String, String> attributes = new LinkedHashMap<>();
    private String key;
    private Duration delay, expires;
    private Instant at;
    private byte[] body = {};
    private int priority, onConflict;

    public Schedule(String queue) {
        this.queue = queue;
    }

    public Schedule key(String key) {
        this.key = key;
        return this;
    }

    public Schedule delay(Duration delay) {
        this.delay = delay;
        return this;
    }

    public Schedule at(Instant at) {
        this.at = at;
        return this;
    }

    public Schedule body(byte[] body) {
        this.body = body.clone();
        return this;
    }

    public Schedule body(String body) {
        return body(body.getBytes(StandardCharsets.UTF_8));
    }

    /** Sets the body to this JSON text, and the attribute content-type to JSON. */
    public Schedule json(String json) {
        return attribute("content-type", "application/json").body(json);
    }

    public Schedule attribute(String name, String value) {
        attributes.put(name, value);
        return this;
    }

    /** Sets the priority, 0 to 9. Of the ready tasks, 9 is delivered first. */
    public Schedule priority(int priority) {
        this.priority = priority;
        return this;
    }

    /** Sets the time after the due time at which an undelivered task expires. */
    public Schedule expires(Duration expires) {
        this.expires = expires;
        return this;
    }

    /** Sets the action if a live task has the key: "reject", "replace", "earlier" or "later". */
    public Schedule onConflict(String rule) {
        onConflict = CONFLICTS.indexOf(rule);
        if (onConflict < 0) throw new IllegalArgumentException("onConflict must be reject, replace, earlier or later, not " + rule);
        return this;
    }

    /** Converts to whole milliseconds, rounded up, because a task must never be early. */
    static long milliseconds(String name, Duration duration) {
        if (duration.isNegative()) throw new IllegalArgumentException(name + " must be 0 or more, not " + duration);
        return duration.plusNanos(999_999).toMillis();
    }

    static Out when(Duration delay, Instant at) {
        if (delay != null && at != null) throw new IllegalArgumentException("give delay or at, not both");
        if (at == null) return new Out().number(Wire.When.MS, milliseconds("delay", delay == null ? Duration.ZERO : delay));
        return new Out().number(Wire.When.KIND, 1).number(Wire.When.MS, milliseconds("at", Duration.between(Instant.EPOCH, at)));
    }

    /** Cuts the text to the maximum size of a reason, before an incomplete character. */
    static String reason(String text) {
        byte[] bytes = String.valueOf(text).replace('\0', ' ').getBytes(StandardCharsets.UTF_8);
        int size = Math.min(bytes.length, REASON_SIZE_MAX);
        while (size < bytes.length && size > 0 && (bytes[size] & 0xc0) == 0x80) size--;
        return new String(Arrays.copyOf(bytes, size), StandardCharsets.UTF_8);
    }

    byte[] operation(Consumer<Map<String, String>> inject) {
        Map<String, String> all = new LinkedHashMap<>(Tarry.TRACE.get());
        if (inject != null) inject.accept(all);
        all.putAll(attributes);
        Out content = new Out();
        all.forEach((name, value) -> content.message(Wire.Content.ATTRIBUTES, new Out().text(Wire.Attribute.NAME, name).text(Wire.Attribute.VALUE, value)));
        content.bytes(Wire.Content.PAYLOAD, body);
        Out schedule = new Out().text(Wire.Schedule.QUEUE, queue).text(Wire.Schedule.KEY, key).message(Wire.Schedule.WHEN, when(delay, at))
            .bytes(Wire.Schedule.CONTENT, content.packed()).number(Wire.Schedule.PRIORITY, priority)
            .number(Wire.Schedule.EXPIRES_MS, expires == null ? 0 : milliseconds("expires", expires)).number(Wire.Schedule.ON_CONFLICT, onConflict);
        return new Out().message(Wire.Op.SCHEDULE, schedule).packed();
    }
}

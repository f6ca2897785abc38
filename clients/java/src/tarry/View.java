package tarry;

import java.util.Map;

/** A task as {@link Tarry#get} sees it. `state` is pending, ready, in_flight, dead, acked, cancelled, expired or dropped; `key` may be null. */
public record View(long id, String queue, String key, String state, String reason, long dueMs, int attempt, int deliveries, int priority, byte[] body,
    Map<String, String> attributes) {
    static View of(Wire.In in) {
        Content content = Content.of(in.bytes(Wire.TaskView.CONTENT));
        String key = in.text(Wire.TaskView.KEY);
        return new View(in.number(Wire.TaskView.ID), in.text(Wire.TaskView.QUEUE), key.isEmpty() ? null : key, in.text(Wire.TaskView.STATE),
            in.text(Wire.TaskView.REASON), in.number(Wire.TaskView.DUE_MS), (int) in.number(Wire.TaskView.ATTEMPT), (int) in.number(Wire.TaskView.DELIVERIES),
            (int) in.number(Wire.TaskView.PRIORITY), content.body(), content.attributes());
    }

    public String text() {
        return new Content(body, attributes).text();
    }
}

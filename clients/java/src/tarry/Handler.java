package tarry;

/**
 * Handles a task. When it returns, the task is acked. An exception {@link Verdict} decides otherwise. After any other
 * exception the task is delivered again, after the queue's backoff.
 */
@FunctionalInterface
public interface Handler {
    void handle(Task task) throws Exception;
}

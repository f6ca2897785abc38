package tarry;

/** Handles a task. When it returns, the task is acked. {@link Verdict} says otherwise; any other exception has it delivered again after the queue's backoff. */
@FunctionalInterface
public interface Handler {
    void handle(Task task) throws Exception;
}

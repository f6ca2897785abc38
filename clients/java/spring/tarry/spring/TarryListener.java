package tarry.spring;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks a method of a bean that handles the tasks of a queue. Its parameter is a {@link tarry.Task}, or a String with the body. When it returns, the task is
 * acked; {@link tarry.Verdict} and other exceptions say otherwise. Names may be placeholders: "${orders.queue}".
 */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface TarryListener {
    /** Names of the queues. */
    String[] queues();

    /** Number of tasks that are handled at once: a number, or a placeholder. */
    String concurrency() default "10";

    /** Time in seconds that handlers have to finish when the context closes. */
    int drainSeconds() default 30;
}

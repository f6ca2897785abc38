package tarry.spring;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks a method of a bean that handles the tasks of a queue. The method's parameter is a {@link tarry.Task}, or a String with the task's body. When the
 * method returns, the task is acked. A {@link tarry.Verdict} that the method throws says what happens instead; any other exception is a nack. Queue names
 * may be placeholders: "${orders.queue}".
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

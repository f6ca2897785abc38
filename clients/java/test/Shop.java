import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.context.support.GenericApplicationContext;
import tarry.Schedule;
import tarry.Tarry;
import tarry.Task;
import tarry.Verdict;
import tarry.spring.TarryListener;
import tarry.spring.TarryListeners;

/** A program with Spring, for tests/e2e/clients_java_test.py. */
public final class Shop {
    private static final CountDownLatch DONE = new CountDownLatch(3);

    private Shop() {}

    /** A bean with methods that handle tasks. */
    public static class Orders {
        @TarryListener(queues = "close-order", concurrency = "1")
        void close(Task task) {
            boolean isFirst = task.key().equals("order-1001");
            System.out.println(isFirst ? "order 1001 is closed" : "key " + task.key() + ", body " + task.text());
            DONE.countDown();
        }

        @TarryListener(queues = "${refused.queue}", concurrency = "${refused.concurrency}")
        public void refuse(String body) throws Exception {
            DONE.countDown();
            throw new Verdict.Dead("no such customer: " + body);
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Tarry tarry = Tarry.open()) {
            tarry.schedule(new Schedule("close-order").key("order-1001").body("one"));
            tarry.schedule(new Schedule("close-order").key("order-1002").body("two").delay(Duration.ofMillis(300)));
            tarry.schedule(new Schedule("refused").body("Smith"));
            GenericApplicationContext context = new GenericApplicationContext();
            context.getBeanFactory().addEmbeddedValueResolver(text -> text.replace("${refused.queue}", "refused").replace("${refused.concurrency}", "2"));
            context.getBeanFactory().registerSingleton("tarry", tarry);
            context.registerBeanDefinition("listeners", new RootBeanDefinition(TarryListeners.class));
            context.registerBeanDefinition("orders", new RootBeanDefinition(Orders.class));
            context.refresh();
            boolean isDone = DONE.await(30, TimeUnit.SECONDS);
            context.close();
            System.out.println(isDone ? "closed" : "too late");
        }
    }
}

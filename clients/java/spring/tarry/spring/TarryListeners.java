package tarry.spring;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.beans.factory.config.EmbeddedValueResolver;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ApplicationContextAware;
import org.springframework.context.SmartLifecycle;
import org.springframework.core.annotation.AnnotationUtils;
import tarry.Handler;
import tarry.Tarry;
import tarry.Task;
import tarry.Worker;

/**
 * Starts a worker for each method with {@link TarryListener} when the context has started, and stops it when the context closes. Declare it as a static
 * &#64;Bean; the context must have one bean of the type {@link Tarry}.
 */
public class TarryListeners implements BeanPostProcessor, ApplicationContextAware, SmartLifecycle {
    private record Listener(Object bean, Method method, TarryListener asked) {}

    private final List<Listener> listeners = new ArrayList<>();
    private final List<Worker> workers = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private ApplicationContext context;
    private volatile boolean isRunning;

    @Override
    public void setApplicationContext(ApplicationContext given) {
        context = given;
    }

    @Override
    public Object postProcessBeforeInitialization(Object bean, String name) {
        return bean;
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        Class<?> type = org.springframework.util.ClassUtils.getUserClass(bean);
        for (Class<?> at = type; at != null && at != Object.class; at = at.getSuperclass()) {
            for (Method method : at.getDeclaredMethods()) {
                TarryListener asked = AnnotationUtils.findAnnotation(method, TarryListener.class);
                if (asked != null && !method.isBridge()) listeners.add(new Listener(bean, check(method), asked));
            }
        }
        return bean;
    }

    private static Method check(Method method) {
        Class<?>[] parameters = method.getParameterTypes();
        if (parameters.length != 1 || parameters[0] != Task.class && parameters[0] != String.class)
            throw new IllegalStateException("@TarryListener " + method + ": its only parameter must be a tarry.Task, or a String for the body");
        if (Modifier.isStatic(method.getModifiers())) throw new IllegalStateException("@TarryListener " + method + ": the method must not be static");
        method.setAccessible(true);
        return method;
    }

    private static Handler handlerOf(Listener listener) {
        boolean wantsBody = listener.method().getParameterTypes()[0] == String.class;
        return task -> {
            try {
                listener.method().invoke(listener.bean(), wantsBody ? task.text() : task);
            } catch (InvocationTargetException error) {
                if (error.getCause() instanceof Exception cause) throw cause;
                throw error;
            }
        };
    }

    @Override
    public void start() {
        Tarry tarry = context.getBean(Tarry.class);
        EmbeddedValueResolver resolver = new EmbeddedValueResolver((ConfigurableBeanFactory) context.getAutowireCapableBeanFactory());
        for (Listener listener : listeners) {
            List<String> queues = Stream.of(listener.asked().queues()).map(resolver::resolveStringValue).toList();
            int concurrency = Integer.parseInt(resolver.resolveStringValue(listener.asked().concurrency()));
            Worker worker = tarry.worker(queues, concurrency, handlerOf(listener)).signals(false).drain(Duration.ofSeconds(listener.asked().drainSeconds()));
            Thread thread = new Thread(worker::run, "tarry " + queues);
            workers.add(worker);
            threads.add(thread);
            thread.start();
        }
        isRunning = true;
    }

    @Override
    public void stop() {
        isRunning = false;
        workers.forEach(Worker::stop);
        try {
            for (Thread thread : threads) thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        workers.clear();
        threads.clear();
    }

    @Override
    public void stop(Runnable callback) {
        stop();
        callback.run();
    }

    @Override
    public boolean isRunning() {
        return isRunning;
    }

    @Override
    public boolean isAutoStartup() {
        return true;
    }

    /** Returns the phase: Spring starts this bean last and stops it first. */
    @Override
    public int getPhase() {
        return Integer.MAX_VALUE;
    }
}

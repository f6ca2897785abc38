import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import tarry.Result;
import tarry.Schedule;
import tarry.Tarry;
import tarry.TarryException;
import tarry.Task;
import tarry.Verdict;
import tarry.View;

/** The driver of clients/java (README.md). */
public final class Driver {
    private final CountDownLatch gate = new CountDownLatch(1);
    private final Tarry tarry;

    private Driver() {
        String timeout = System.getenv("TARRY_TEST_TIMEOUT_MS");
        tarry = Tarry.builder().timeout(Duration.ofMillis(timeout == null ? 30000 : Long.parseLong(timeout))).measure(Driver::measured).open();
    }

    /** Parser and printer of JSON. Values are Map, List, String, Long, Boolean and null. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        private char peek() {
            while (Character.isWhitespace(text.charAt(at))) at++;
            return text.charAt(at);
        }

        private boolean take(char wanted) {
            boolean isThere = peek() == wanted;
            if (isThere) at++;
            return isThere;
        }

        Object value() {
            switch (peek()) {
                case '{': {
                    Map<String, Object> map = new LinkedHashMap<>();
                    for (at++; !take('}'); take(',')) {
                        String name = string();
                        if (!take(':')) throw new IllegalArgumentException(text);
                        map.put(name, value());
                    }
                    return map;
                }
                case '[': {
                    List<Object> list = new ArrayList<>();
                    for (at++; !take(']'); take(',')) list.add(value());
                    return list;
                }
                case '"':
                    return string();
                default: {
                    int start = at;
                    while (at < text.length() && "-+.eE0123456789truefalsn".indexOf(text.charAt(at)) >= 0) at++;
                    String word = text.substring(start, at);
                    if (word.equals("null")) return null;
                    return word.equals("true") || word.equals("false") ? (Object) Boolean.valueOf(word) : (Object) Long.valueOf(word);
                }
            }
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            peek();
            for (at++; text.charAt(at) != '"'; at++) {
                char one = text.charAt(at);
                if (one == '\\') {
                    one = text.charAt(++at);
                    if (one == 'u') {
                        one = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                        at += 4;
                    } else if (one == 'n') {
                        one = '\n';
                    }
                }
                out.append(one);
            }
            at++;
            return out.toString();
        }

        static String of(Object value) {
            if (value instanceof Map<?, ?> map) {
                List<String> members = new ArrayList<>();
                map.forEach((name, member) -> members.add(of(name) + ":" + of(member)));
                return "{" + String.join(",", members) + "}";
            }
            if (value instanceof List<?> list) return "[" + String.join(",", list.stream().map(Json::of).toList()) + "]";
            if (!(value instanceof String text)) return String.valueOf(value);
            StringBuilder out = new StringBuilder("\"");
            for (char one : text.toCharArray()) out.append(one < 0x20 || one == '"' || one == '\\' || one > 0x7e ? String.format("\\u%04x", (int) one) : one);
            return out.append('"').toString();
        }
    }

    private static void tell(Map<String, Object> what) {
        synchronized (System.out) {
            System.out.println(Json.of(what));
            System.out.flush();
        }
    }

    private static Map<String, Object> map(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) map.put((String) pairs[at], pairs[at + 1]);
        return map;
    }

    private static void measured(String name, double value, Map<String, Object> labels) {
        if (!name.equals("tarry.worker.tasks")) return;
        Task task = (Task) labels.get("task");
        tell(map("event", "settled", "name", task.attributes().get("name"), "result", labels.get("result"), "deliveries", task.deliveries()));
    }

    private void handle(Task task) throws Exception {
        tell(map("event", "task", "name", task.attributes().get("name"), "key", task.key(), "attempt", task.attempt(), "deliveries", task.deliveries(), "due_ms",
            task.dueMs(), "delivered_ms", task.deliveredMs(), "attributes", task.attributes()));
        String[] words = task.text().split(" ");
        String text = task.text().substring(Math.min(task.text().length(), words[0].length() + 1));
        long number = words.length > 1 && words[1].matches("\\d+") ? Long.parseLong(words[1]) : 0;
        switch (words[0]) {
            case "sleep" -> Thread.sleep(number);
            case "gate" -> gate.await();
            case "fail" -> throw new IllegalStateException(text);
            case "dead" -> throw new Verdict.Dead(text);
            case "fail-first" -> {
                if (task.attempt() <= number) throw new IllegalStateException("not yet");
            }
            case "retry-first" -> {
                if (task.attempt() <= number) throw new Verdict.Retry("not yet", Duration.ofMillis(Long.parseLong(words[2])));
            }
            case "release-first" -> {
                if (task.deliveries() <= number) throw new Verdict.Release(Duration.ofMillis(Long.parseLong(words[2])));
            }
            case "chain" -> tarry.schedule(new Schedule(words[1]).body("ack").attribute("name", words[2]));
            default -> { }
        }
    }

    private static Schedule schedule(Map<?, ?> call) {
        Schedule task = new Schedule((String) call.get("queue")).key((String) call.get("key"));
        if (call.get("body") instanceof String body) task.body(body);
        if (call.get("delay_ms") instanceof Long ms) task.delay(Duration.ofMillis(ms));
        if (call.get("at_ms") instanceof Long ms) task.at(Instant.ofEpochMilli(ms));
        if (call.get("attributes") instanceof Map<?, ?> attributes) attributes.forEach((name, value) -> task.attribute((String) name, (String) value));
        if (call.get("on_conflict") instanceof String rule) task.onConflict(rule);
        return task;
    }

    private static Map<String, Object> plain(Result result) {
        return map("code", result.code(), "outcome", result.outcome(), "task", Long.toUnsignedString(result.id()), "due_ms", result.dueMs(), "deliveries",
            result.deliveries());
    }

    private Map<String, Object> run(Map<?, ?> call) {
        String queue = (String) call.get("queue"), key = (String) call.get("key");
        switch ((String) call.get("call")) {
            case "schedule":
                return plain(tarry.schedule(schedule(call)));
            case "schedule_many":
                List<Schedule> tasks = ((List<?>) call.get("tasks")).stream().map(task -> schedule((Map<?, ?>) task)).toList();
                return map("results", tarry.scheduleMany(tasks, Boolean.TRUE.equals(call.get("atomic"))).stream().map(Driver::plain).toList());
            case "cancel":
                return plain(Boolean.TRUE.equals(call.get("withdraw")) ? tarry.withdraw(queue, key) : tarry.cancel(queue, key));
            case "move":
                return plain(call.get("at_ms") instanceof Long ms ? tarry.move(queue, key, Instant.ofEpochMilli(ms))
                    : tarry.move(queue, key, Duration.ofMillis((Long) call.get("delay_ms"))));
            case "get":
                View view = tarry.get(queue, key);
                return view == null ? map("state", "unknown") : map("state", view.state(), "body", view.text(), "attributes", view.attributes(), "reason",
                    view.reason(), "due_ms", view.dueMs(), "deliveries", view.deliveries());
            case "worker":
                var worker = tarry.worker(List.of(queue), ((Long) call.get("concurrency")).intValue(), this::handle);
                if (call.get("lease_ms") instanceof Long ms) worker.lease(Duration.ofMillis(ms));
                worker.run();
                return map();
            case "open":
                gate.countDown();
                return map();
            default:
                throw new IllegalArgumentException((String) call.get("call"));
        }
    }

    private void answer(Map<?, ?> call) {
        Map<String, Object> told;
        try {
            told = run(call);
        } catch (TarryException error) {
            told = map("code", error.code(), "message", error.getMessage(), "outcome", error.result() == null ? "" : error.result().outcome());
        }
        told.put("id", call.get("id"));
        tell(told);
    }

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver();
        ExecutorService calls = Executors.newCachedThreadPool(runnable -> {
            Thread thread = new Thread(() -> {
                try {
                    runnable.run();
                } catch (RuntimeException error) { // a defect of the driver, not a refusal
                    error.printStackTrace();
                    Runtime.getRuntime().halt(2);
                }
            });
            thread.setDaemon(true);
            return thread;
        });
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null;) {
            Map<?, ?> call = (Map<?, ?>) new Json(line).value();
            calls.execute(() -> driver.answer(call));
        }
        driver.tarry.close();
    }
}

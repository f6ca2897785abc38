// Order.java: an order that is not paid within two seconds is closed. As a service of yours would say it: 30m. Java 17: java Order.java
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.regex.Pattern;

public class Order {
    private static final String BROKER = System.getenv().getOrDefault("TARRY_HTTP", "http://127.0.0.1:7272") + "/v1";
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    /** Returns the broker's answer as JSON; throws if the broker refuses. */
    private static String call(String method, String path, String json) throws Exception {
        var body = json == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(json);
        var request = HttpRequest.newBuilder(URI.create(BROKER + path)).method(method, body).header("Content-Type", "application/json");
        if (System.getenv("TARRY_TOKEN") != null) {
            request.header("Authorization", "Bearer " + System.getenv("TARRY_TOKEN"));
        }
        var answer = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() / 100 != 2) {
            throw new IllegalStateException(method + " " + path + ": " + answer.statusCode() + " " + answer.body());
        }
        return answer.body();
    }

    /**
     * Returns the first value with this name in a JSON text. The standard library cannot read JSON; a real program uses Jackson or
     * another library.
     */
    private static String member(String json, String name) {
        var found = Pattern.compile("\"" + name + "\":\"?([^\",}]*)").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    public static void main(String[] arguments) throws Exception {
        for (var order : new String[] {"order-1", "order-2"}) { // two orders are placed
            call("POST", "/queues/close-order/tasks", "{\"key\": \"%s\", \"in\": \"2s\", \"json\": {\"order\": \"%s\"}}".formatted(order, order));
        }

        // The first is paid in time. With 0 deliveries no consumer has seen the task, and none ever will.
        var paid = call("DELETE", "/queues/close-order/tasks/order-1", null);
        System.out.println("order-1 paid, " + member(paid, "deliveries") + " seen");

        // The second is not. What is leased is ours for 30 s (the queue's policy); if we die, somebody else gets it.
        var leased = call("POST", "/queues/close-order/lease", "{\"max\": 1, \"wait\": \"20s\"}");
        System.out.println(member(leased, "key") + " closed, attempt " + member(leased, "attempt"));
        call("POST", "/ack", "{\"id\": \"%s\", \"token\": \"%s\"}".formatted(member(leased, "id"), member(leased, "token")));
    }
}

/* Orders.java: closes unpaid orders, written for RabbitMQ with RabbitMQ's own client. It uses a delay queue with an expiration for each message, a dead-letter exchange, publisher confirms, and a consumer with manual acknowledgements. Nothing in it is specific to Tarry, except the header of the last order. Arguments: port. */
import com.rabbitmq.client.*;
import java.io.IOException;
import java.util.*;
import java.util.concurrent.*;

public class Orders {
    static final Map<String, Long> placed = new ConcurrentHashMap<>();

    static void place(Channel channel, String order, int delay, Map<String, Object> headers) throws IOException {
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
            .deliveryMode(2).contentType("text/plain").expiration(Integer.toString(delay)).headers(headers).build();
        placed.put(order, System.nanoTime());
        channel.basicPublish("order.delay.exchange", "order.delay", true, properties, order.getBytes("UTF-8"));
    }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(Integer.parseInt(arguments[0]));
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            channel.exchangeDeclare("order.dlx.exchange", BuiltinExchangeType.DIRECT, true);
            channel.queueDeclare("order.close.queue", true, false, false, null);
            channel.queueBind("order.close.queue", "order.dlx.exchange", "order.close");
            Map<String, Object> delayed = new HashMap<>();
            delayed.put("x-dead-letter-exchange", "order.dlx.exchange");
            delayed.put("x-dead-letter-routing-key", "order.close");
            channel.exchangeDeclare("order.delay.exchange", BuiltinExchangeType.DIRECT, true);
            channel.queueDeclare("order.delay.queue", true, false, false, delayed);
            channel.queueBind("order.delay.queue", "order.delay.exchange", "order.delay");

            BlockingQueue<String> closed = new LinkedBlockingQueue<>();
            Channel worker = connection.createChannel();
            worker.basicQos(1);
            worker.basicConsume("order.close.queue", false, new DefaultConsumer(worker) {
                public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) throws IOException {
                    String order = new String(body, "UTF-8");
                    long waited = (System.nanoTime() - placed.get(order)) / 1000000;
                    List<?> deaths = (List<?>) properties.getHeaders().get("x-death");
                    Map<?, ?> death = (Map<?, ?>) deaths.get(0);
                    if (!envelope.isRedeliver()) { // the first attempt fails
                        worker.basicNack(envelope.getDeliveryTag(), false, true);
                        return;
                    }
                    worker.basicAck(envelope.getDeliveryTag(), false);
                    closed.add(order + " " + death.get("reason") + " " + death.get("queue") + " " + waited);
                }
            });

            channel.confirmSelect();
            place(channel, "slow", 1500, null);
            place(channel, "fast", 300, null); // does not wait behind the slow one
            place(channel, "never", 600000, Collections.singletonMap("x-tarry-key", (Object) "order-3"));
            channel.waitForConfirmsOrDie(30000);
            for (int i = 0; i < 2; i++) System.out.println(closed.poll(30, TimeUnit.SECONDS));
            System.out.println(channel.messageCount("order.delay.queue") + " waits");
        }
    }
}

// RabbitMQ's own Java client against the server at the given address.
//
//     java -cp 'jars/*' Amqp.java AMQP_URL [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses queues and exchanges of its own.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Amqp {
    static final long DEADLINE_MS = 30_000;
    static ConnectionFactory factory = new ConnectionFactory();

    interface Check { void run() throws Exception; }
    interface Scenario { void run(Channel channel) throws Exception; }

    public static void main(String[] arguments) throws Exception {
        factory.setUri(arguments[0]);
        factory.setRequestedHeartbeat(5);
        Set<String> wanted = new HashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("publish-with-confirms", on(Amqp::publishWithConfirms));
        checks.put("confirm-listener", on(Amqp::confirmListener));
        checks.put("returns", on(Amqp::returns));
        checks.put("consume-and-ack", on(Amqp::consumeAndAck));
        checks.put("prefetch", on(Amqp::prefetch));
        checks.put("requeue", on(Amqp::requeue));
        checks.put("exchange-to-exchange", on(Amqp::exchangeToExchange));
        checks.put("headers-of-every-type", on(Amqp::headersOfEveryType));
        checks.put("large-body", on(Amqp::largeBody));
        checks.put("priorities", on(Amqp::priorities));
        checks.put("dead-letters", on(Amqp::deadLetters));
        checks.put("direct-reply-to", on(Amqp::directReplyTo));
        checks.put("rpc", on(Amqp::rpc));
        checks.put("transaction", on(Amqp::transaction));
        checks.put("cancel-notification", on(Amqp::cancelNotification));
        checks.put("channel-error", on(Amqp::channelError));
        checks.put("single-active-consumer", on(Amqp::singleActiveConsumer));
        checks.put("stream", on(Amqp::stream));
        checks.put("topology-recovery", Amqp::topologyRecovery);
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            if (!wanted.isEmpty() && !wanted.contains(check.getKey())) continue;
            try {
                check.getValue().run();
                System.out.println("\n=> ok " + check.getKey());
            } catch (Throwable failure) {
                System.out.println("\n=> failed " + check.getKey() + ": " + String.valueOf(failure).replace('\n', ' ')
                    + (failure.getCause() == null ? "" : " caused by " + failure.getCause()));
            }
        }
        System.exit(0);
    }

    /** Runs a scenario with a channel on a connection of its own. */
    static Check on(Scenario scenario) {
        return () -> {
            try (Connection connection = factory.newConnection()) {
                scenario.run(connection.createChannel());
            }
        };
    }

    static String unique(String stem) { return stem + "-" + UUID.randomUUID().toString().substring(0, 12); }

    static byte[] bytes(Object value) { return String.valueOf(value).getBytes(StandardCharsets.UTF_8); }

    static String text(byte[] body) { return new String(body, StandardCharsets.UTF_8); }

    static void equal(Object got, Object want) {
        if (!Objects.deepEquals(got, want)) throw new AssertionError("got " + got + ", want " + want);
    }

    static String exclusive(Channel channel, Map<String, Object> arguments) throws IOException {
        return channel.queueDeclare("", false, true, false, arguments).getQueue();
    }

    static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean autoAck) throws IOException {
        BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, autoAck, (tag, delivery) -> deliveries.add(delivery), tag -> { });
        return deliveries;
    }

    static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
        T value = queue.poll(DEADLINE_MS, TimeUnit.MILLISECONDS);
        if (value == null) throw new AssertionError("nothing came");
        return value;
    }

    static void publishWithConfirms(Channel channel) throws Exception {
        String queue = unique("confirms");
        channel.queueDeclare(queue, true, false, false, null);
        channel.confirmSelect();
        for (int number = 0; number < 500; number++)
            channel.basicPublish("", queue, MessageProperties.MINIMAL_PERSISTENT_BASIC, bytes(number));
        channel.waitForConfirmsOrDie(DEADLINE_MS);
        equal(channel.messageCount(queue), 500L);
        equal(channel.queueDelete(queue).getMessageCount(), 500);
    }

    static void confirmListener(Channel channel) throws Exception {
        ConcurrentSkipListSet<Long> open = new ConcurrentSkipListSet<>();
        Set<Long> refused = new TreeSet<>();
        CompletableFuture<Void> done = new CompletableFuture<>();
        String queue = exclusive(channel, Map.of("x-max-length", 2, "x-overflow", "reject-publish"));
        channel.confirmSelect();
        channel.addConfirmListener(
            (tag, multiple) -> settle(open, tag, multiple, null, done),
            (tag, multiple) -> settle(open, tag, multiple, refused, done));
        for (long number = 1; number <= 5; number++) open.add(number);
        for (int number = 0; number < 5; number++) channel.basicPublish("", queue, null, bytes(number));
        done.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
        equal(refused, Set.of(3L, 4L, 5L));
    }

    static synchronized void settle(
            ConcurrentSkipListSet<Long> open, long tag, boolean multiple, Set<Long> into, CompletableFuture<Void> done) {
        List<Long> settled = multiple ? new ArrayList<>(open.headSet(tag, true)) : List.of(tag);
        settled.forEach(open::remove);
        if (into != null) into.addAll(settled);
        if (open.isEmpty()) done.complete(null);
    }

    static void returns(Channel channel) throws Exception {
        BlockingQueue<String> returned = new LinkedBlockingQueue<>();
        channel.addReturnListener(message -> returned.add(
            message.getReplyCode() + " " + message.getReplyText() + " " + message.getRoutingKey() + " " + text(message.getBody())));
        channel.basicPublish("amq.direct", "nowhere", true, null, bytes("x"));
        equal(next(returned), "312 NO_ROUTE nowhere x");
    }

    static void consumeAndAck(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        BlockingQueue<Delivery> deliveries = consume(channel, queue, false);
        for (int number = 0; number < 200; number++) channel.basicPublish("", queue, null, bytes(number));
        for (int number = 0; number < 200; number++) {
            Delivery delivery = next(deliveries);
            equal(text(delivery.getBody()), String.valueOf(number));
            if (number % 7 == 0) channel.basicAck(delivery.getEnvelope().getDeliveryTag(), true);
        }
        channel.basicAck(0, true);
        equal(channel.queuePurge(queue).getMessageCount(), 0);
    }

    static void prefetch(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        for (int number = 0; number < 10; number++) channel.basicPublish("", queue, null, bytes(number));
        channel.basicQos(3);
        BlockingQueue<Delivery> deliveries = consume(channel, queue, false);
        Delivery first = next(deliveries);
        next(deliveries);
        next(deliveries);
        equal(channel.messageCount(queue), 7L);
        channel.basicAck(first.getEnvelope().getDeliveryTag(), false);
        equal(text(next(deliveries).getBody()), "3");
    }

    static void requeue(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        channel.confirmSelect();
        for (int number = 0; number < 3; number++) channel.basicPublish("", queue, null, bytes(number));
        channel.waitForConfirmsOrDie(DEADLINE_MS);
        channel.basicGet(queue, false);
        GetResponse second = channel.basicGet(queue, false);
        channel.basicNack(second.getEnvelope().getDeliveryTag(), true, true);
        for (int number = 0; number < 3; number++) {
            GetResponse again = channel.basicGet(queue, true);
            equal(text(again.getBody()) + again.getEnvelope().isRedeliver(), number + (number < 2 ? "true" : "false"));
        }
        equal(channel.basicGet(queue, true), null);
    }

    static void exchangeToExchange(Channel channel) throws Exception {
        String source = unique("source");
        String destination = unique("destination");
        String queue = exclusive(channel, null);
        channel.exchangeDeclare(source, "topic", false, true, null);
        channel.exchangeDeclare(destination, "fanout", false, true, true, null);
        channel.exchangeBind(destination, source, "a.*");
        channel.queueBind(queue, destination, "");
        for (String key : List.of("a.b", "b.a", "a.c")) channel.basicPublish(source, key, null, bytes(key));
        BlockingQueue<Delivery> deliveries = consume(channel, queue, true);
        equal(text(next(deliveries).getBody()), "a.b");
        equal(text(next(deliveries).getBody()), "a.c");
        channel.exchangeUnbind(destination, source, "a.*");
    }

    static void headersOfEveryType(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        Map<String, Object> headers = new LinkedHashMap<>();
        headers.put("null", null);
        headers.put("boolean", true);
        headers.put("byte", (byte) -5);
        headers.put("short", (short) -300);
        headers.put("int", 70_000);
        headers.put("long", 1L << 60);
        headers.put("float", 0.5f);
        headers.put("double", 0.1);
        headers.put("decimal", new BigDecimal("12.34"));
        headers.put("text", "ünïcode");
        headers.put("bytes", new byte[] {0, -1});
        headers.put("date", new Date(1_700_000_000_000L));
        headers.put("list", List.of(1, "two", List.of(3L)));
        headers.put("table", Map.of("nested", Map.of("deeper", false)));
        channel.basicPublish("", queue, new AMQP.BasicProperties.Builder().headers(headers).build(), bytes("x"));
        Map<String, Object> came = next(consume(channel, queue, true)).getProperties().getHeaders();
        for (String name : headers.keySet()) {
            if (name.equals("bytes")) equal(came.get(name), headers.get(name));
            else equal(String.valueOf(came.get(name)), String.valueOf(headers.get(name)));
        }
        equal(came.size(), headers.size());
        equal(came.get("text") instanceof LongString, true);
    }

    static void largeBody(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        byte[] body = new byte[3_000_000];
        new Random(1).nextBytes(body);
        channel.basicPublish("", queue, null, body);
        equal(next(consume(channel, queue, true)).getBody(), body);
    }

    static void priorities(Channel channel) throws Exception {
        String queue = exclusive(channel, Map.of("x-max-priority", 10));
        channel.confirmSelect();
        for (int priority : new int[] {1, 10, 5})
            channel.basicPublish("", queue, new AMQP.BasicProperties.Builder().priority(priority).build(), bytes(priority));
        channel.waitForConfirmsOrDie(DEADLINE_MS);
        List<String> order = new ArrayList<>();
        for (int number = 0; number < 3; number++) order.add(text(channel.basicGet(queue, true).getBody()));
        equal(order, List.of("10", "5", "1"));
    }

    static void deadLetters(Channel channel) throws Exception {
        String dead = exclusive(channel, null);
        String queue = exclusive(channel, Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead));
        channel.basicPublish("", queue, new AMQP.BasicProperties.Builder().expiration("50").build(), bytes("x"));
        Map<?, ?> death = (Map<?, ?>) ((List<?>) next(consume(channel, dead, true)).getProperties().getHeaders().get("x-death")).get(0);
        equal(death.get("reason") + " " + death.get("queue") + " " + death.get("count") + " " + death.get("original-expiration"),
            "expired " + queue + " 1 50");
    }

    static void directReplyTo(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        DeliverCallback echo = (tag, delivery) ->
            channel.basicPublish("", delivery.getProperties().getReplyTo(), null, delivery.getBody());
        channel.basicConsume(queue, true, echo, tag -> { });
        Channel caller = channel.getConnection().createChannel();
        BlockingQueue<Delivery> replies = consume(caller, "amq.rabbitmq.reply-to", true);
        caller.basicPublish("", queue, new AMQP.BasicProperties.Builder().replyTo("amq.rabbitmq.reply-to").build(), bytes("hello"));
        equal(text(next(replies).getBody()), "hello");
    }

    static void rpc(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        RpcServer server = new RpcServer(channel, queue) {
            @Override
            public byte[] handleCall(Delivery request, AMQP.BasicProperties replyProperties) {
                return bytes(text(request.getBody()).toUpperCase());
            }
        };
        Thread serving = new Thread(() -> {
            try {
                server.mainloop();
            } catch (Exception ended) {
                // with its connection
            }
        });
        serving.setDaemon(true);
        serving.start();
        RpcClient client = new RpcClient(new RpcClientParams()
            .channel(channel.getConnection().createChannel()).exchange("").routingKey(queue).timeout((int) DEADLINE_MS));
        for (String word : List.of("one", "two", "three")) equal(client.stringCall(word), word.toUpperCase());
        client.close();
        server.terminateMainloop();
    }

    static void transaction(Channel channel) throws Exception {
        String queue = exclusive(channel, null);
        channel.txSelect();
        channel.basicPublish("", queue, null, bytes("rolled back"));
        channel.txRollback();
        channel.basicPublish("", queue, null, bytes("committed"));
        channel.txCommit();
        equal(text(channel.basicGet(queue, true).getBody()), "committed");
        equal(channel.basicGet(queue, true), null);
    }

    static void cancelNotification(Channel channel) throws Exception {
        String queue = unique("cancelled");
        channel.queueDeclare(queue, false, false, false, null);
        BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
        String tag = channel.basicConsume(queue, false, (t, delivery) -> { }, cancelled::add);
        channel.getConnection().createChannel().queueDelete(queue);
        equal(next(cancelled), tag);
    }

    static void channelError(Channel channel) throws Exception {
        String queue = unique("nothing");
        try {
            channel.queueDeclarePassive(queue);
            throw new AssertionError("no error");
        } catch (IOException failure) {
            AMQP.Channel.Close close = (AMQP.Channel.Close) ((ShutdownSignalException) failure.getCause()).getReason();
            equal(close.getReplyCode() + " " + close.getReplyText(), "404 NOT_FOUND - no queue '" + queue + "' in vhost '/'");
        }
        try {
            channel.basicQos(1);
            throw new AssertionError("the channel is still open");
        } catch (AlreadyClosedException expected) {
            equal(channel.getConnection().isOpen(), true);
        }
    }

    static void singleActiveConsumer(Channel channel) throws Exception {
        String queue = exclusive(channel, Map.of("x-single-active-consumer", true));
        BlockingQueue<Delivery> first = new LinkedBlockingQueue<>();
        String tag = channel.basicConsume(queue, true, (t, delivery) -> first.add(delivery), t -> { });
        BlockingQueue<Delivery> second = consume(channel.getConnection().createChannel(), queue, true);
        for (int number = 0; number < 10; number++) channel.basicPublish("", queue, null, bytes(number));
        for (int number = 0; number < 10; number++) next(first);
        equal(second.size(), 0);
        channel.basicCancel(tag);
        channel.basicPublish("", queue, null, bytes("later"));
        equal(text(next(second).getBody()), "later");
    }

    static void stream(Channel channel) throws Exception {
        String queue = unique("stream");
        channel.queueDeclare(queue, true, false, false, Map.of("x-queue-type", "stream"));
        channel.confirmSelect();
        for (int number = 0; number < 20; number++) channel.basicPublish("", queue, null, bytes(number));
        channel.waitForConfirmsOrDie(DEADLINE_MS);
        channel.basicQos(5);
        BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, false, Map.of("x-stream-offset", "first"), (tag, delivery) -> {
            deliveries.add(delivery);
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }, tag -> { });
        for (long number = 0; number < 20; number++) {
            Delivery delivery = next(deliveries);
            equal(text(delivery.getBody()) + delivery.getProperties().getHeaders().get("x-stream-offset"), number + "" + number);
        }
        channel.getConnection().createChannel().queueDelete(queue);
    }

    /** The client loses its connection, makes a new one and declares all that it had declared. */
    static void topologyRecovery() throws Exception {
        ConnectionFactory recovering = factory.clone();
        recovering.setNetworkRecoveryInterval(100);
        BlockingQueue<java.net.Socket> sockets = new LinkedBlockingQueue<>();
        recovering.setSocketConfigurator(sockets::add);
        try (Connection connection = recovering.newConnection()) {
            CompletableFuture<Void> recovered = new CompletableFuture<>();
            ((com.rabbitmq.client.Recoverable) connection).addRecoveryListener(new com.rabbitmq.client.RecoveryListener() {
                @Override public void handleRecovery(com.rabbitmq.client.Recoverable recoverable) { recovered.complete(null); }
                @Override public void handleRecoveryStarted(com.rabbitmq.client.Recoverable recoverable) { }
            });
            Channel channel = connection.createChannel();
            String exchange = unique("recovery");
            channel.exchangeDeclare(exchange, "direct", false, true, null);
            String queue = exclusive(channel, null);
            channel.queueBind(queue, exchange, "k");
            BlockingQueue<Delivery> deliveries = consume(channel, queue, true);
            channel.basicPublish(exchange, "k", null, bytes("before"));
            equal(text(next(deliveries).getBody()), "before");
            sockets.take().close();
            recovered.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
            channel.basicPublish(exchange, "k", null, bytes("after"));
            equal(text(next(deliveries).getBody()), "after");
        }
    }
}

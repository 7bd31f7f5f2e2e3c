// RabbitMQ's JMS client against the server at the given address.
//
//     java -cp 'jars/*' Jms.java AMQP_URL [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses destinations of its own.

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import jakarta.jms.TopicSubscriber;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Jms {
    static final long DEADLINE_MS = 30_000;
    static final long NOTHING_MS = 300;
    static RMQConnectionFactory factory = new RMQConnectionFactory();
    static String url;

    interface Check { void run(Connection connection) throws Exception; }

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        factory.setUri(url);
        Set<String> wanted = new HashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("point-to-point", Jms::pointToPoint);
        checks.put("competing-receivers", Jms::competingReceivers);
        checks.put("message-types", Jms::messageTypes);
        checks.put("client-acknowledge", Jms::clientAcknowledge);
        checks.put("transacted-session", Jms::transactedSession);
        checks.put("request-and-reply", Jms::requestAndReply);
        checks.put("time-to-live", Jms::timeToLive);
        checks.put("browse", Jms::browse);
        checks.put("topic", Jms::topic);
        checks.put("topic-wildcards", Jms::topicWildcards);
        checks.put("durable-subscription", Jms::durableSubscription);
        checks.put("amqp-destination", Jms::amqpDestination);
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            if (!wanted.isEmpty() && !wanted.contains(check.getKey())) continue;
            try (Connection connection = factory.createConnection()) {
                connection.start();
                check.getValue().run(connection);
                System.out.println("\n=> ok " + check.getKey());
            } catch (Throwable failure) {
                System.out.println("\n=> failed " + check.getKey() + ": " + String.valueOf(failure).replace('\n', ' ')
                    + (failure.getCause() == null ? "" : " caused by " + failure.getCause()));
            }
        }
        System.exit(0);
    }

    static String unique(String stem) { return stem + "-" + UUID.randomUUID().toString().substring(0, 12); }

    static void equal(Object got, Object want) {
        if (!Objects.deepEquals(got, want)) throw new AssertionError("got " + got + ", want " + want);
    }

    static Session auto(Connection connection) throws Exception { return connection.createSession(false, Session.AUTO_ACKNOWLEDGE); }

    static String text(Message message) throws Exception {
        if (message == null) throw new AssertionError("nothing came");
        return ((TextMessage) message).getText();
    }

    static void send(Session session, Destination destination, String... texts) throws Exception {
        try (MessageProducer producer = session.createProducer(destination)) {
            for (String text : texts) producer.send(session.createTextMessage(text));
        }
    }

    static void pointToPoint(Connection connection) throws Exception {
        Session session = auto(connection);
        Queue queue = session.createQueue(unique("jms"));
        send(session, queue, "one", "two", "three");
        MessageConsumer consumer = session.createConsumer(queue);
        for (String text : List.of("one", "two", "three")) {
            Message message = consumer.receive(DEADLINE_MS);
            equal(text(message), text);
            equal(message.getJMSDeliveryMode(), DeliveryMode.PERSISTENT);
            equal(message.getJMSRedelivered(), false);
        }
        equal(consumer.receive(NOTHING_MS), null);
    }

    static void competingReceivers(Connection connection) throws Exception {
        Queue queue = auto(connection).createQueue(unique("jms"));
        BlockingQueue<String> all = new LinkedBlockingQueue<>();
        for (int number = 0; number < 3; number++)
            auto(connection).createConsumer(queue).setMessageListener(message -> {
                try {
                    all.add(text(message));
                } catch (Exception failure) {
                    all.add(failure.toString());
                }
            });
        Session session = auto(connection);
        Set<String> sent = new HashSet<>();
        for (int number = 0; number < 30; number++) {
            send(session, queue, "m" + number);
            sent.add("m" + number);
        }
        Set<String> received = new HashSet<>();
        for (int number = 0; number < 30; number++) received.add(all.poll(DEADLINE_MS, TimeUnit.MILLISECONDS));
        equal(received, sent);
        equal(all.size(), 0);
    }

    static void messageTypes(Connection connection) throws Exception {
        Session session = auto(connection);
        Queue queue = session.createQueue(unique("jms"));
        MessageProducer producer = session.createProducer(queue);
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[100_000]);
        bytes.writeInt(42);
        MapMessage map = session.createMapMessage();
        map.setString("name", "värde");
        map.setLong("long", 1L << 40);
        ObjectMessage object = session.createObjectMessage(new java.util.ArrayList<>(List.of("a", 1)));
        object.setStringProperty("colour", "red");
        object.setIntProperty("size", 7);
        object.setJMSCorrelationID("c-1");
        object.setJMSType("thing");
        for (Message message : new Message[] {bytes, map, object}) producer.send(message, DeliveryMode.NON_PERSISTENT, 4, 0);
        MessageConsumer consumer = session.createConsumer(queue);
        BytesMessage first = (BytesMessage) consumer.receive(DEADLINE_MS);
        equal(first.getBodyLength(), 100_004L);
        MapMessage second = (MapMessage) consumer.receive(DEADLINE_MS);
        equal(second.getString("name") + second.getLong("long"), "värde" + (1L << 40));
        ObjectMessage third = (ObjectMessage) consumer.receive(DEADLINE_MS);
        equal(third.getObject(), List.of("a", 1));
        equal(third.getStringProperty("colour") + third.getIntProperty("size"), "red7");
        equal(third.getJMSCorrelationID() + third.getJMSType() + third.getJMSDeliveryMode(), "c-1thing1");
    }

    static void clientAcknowledge(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(unique("jms"));
        send(session, queue, "one", "two");
        MessageConsumer consumer = session.createConsumer(queue);
        equal(text(consumer.receive(DEADLINE_MS)), "one");
        session.recover();
        Message again = consumer.receive(DEADLINE_MS);
        equal(text(again), "one");
        equal(again.getJMSRedelivered(), true);
        again.acknowledge();
        equal(text(consumer.receive(DEADLINE_MS)), "two");
        session.close();
        Message left = auto(connection).createConsumer(queue).receive(DEADLINE_MS);
        equal(text(left), "two");
        equal(left.getJMSRedelivered(), true);
    }

    static void transactedSession(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Session other = auto(connection);
        Queue queue = session.createQueue(unique("jms"));
        MessageConsumer outside = other.createConsumer(queue);
        send(session, queue, "rolled back");
        session.rollback();
        send(session, queue, "committed");
        equal(outside.receive(NOTHING_MS), null);
        session.commit();
        equal(text(outside.receive(DEADLINE_MS)), "committed");
        outside.close();
        send(other, queue, "taken twice");
        MessageConsumer inside = session.createConsumer(queue);
        equal(text(inside.receive(DEADLINE_MS)), "taken twice");
        session.rollback();
        equal(text(inside.receive(DEADLINE_MS)), "taken twice");
        session.commit();
        equal(inside.receive(NOTHING_MS), null);
    }

    static void requestAndReply(Connection connection) throws Exception {
        Session serving = auto(connection);
        Queue queue = serving.createQueue(unique("jms"));
        serving.createConsumer(queue).setMessageListener(request -> {
            try {
                TextMessage reply = serving.createTextMessage(text(request).toUpperCase());
                reply.setJMSCorrelationID(request.getJMSMessageID());
                serving.createProducer(request.getJMSReplyTo()).send(reply);
            } catch (Exception failure) {
                throw new RuntimeException(failure);
            }
        });
        Session asking = auto(connection);
        Destination replies = asking.createTemporaryQueue();
        TextMessage request = asking.createTextMessage("hello");
        request.setJMSReplyTo(replies);
        asking.createProducer(queue).send(request);
        Message reply = asking.createConsumer(replies).receive(DEADLINE_MS);
        equal(text(reply), "HELLO");
        equal(reply.getJMSCorrelationID(), request.getJMSMessageID());
    }

    static void timeToLive(Connection connection) throws Exception {
        Session session = auto(connection);
        Queue queue = session.createQueue(unique("jms"));
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("mortal"), DeliveryMode.PERSISTENT, 4, 1);
        Thread.sleep(50);
        producer.send(session.createTextMessage("lasting"));
        equal(text(session.createConsumer(queue).receive(DEADLINE_MS)), "lasting");
    }

    static void browse(Connection connection) throws Exception {
        Session session = auto(connection);
        Queue queue = session.createQueue(unique("jms"));
        Session sending = connection.createSession(true, Session.SESSION_TRANSACTED);
        send(sending, queue, "one", "two");
        sending.commit();
        QueueBrowser browser = session.createBrowser(queue);
        equal(Collections.list(browser.getEnumeration()).size(), 2);
        browser.close();
        MessageConsumer consumer = session.createConsumer(queue);
        equal(text(consumer.receive(DEADLINE_MS)), "one");
        equal(text(consumer.receive(DEADLINE_MS)), "two");
    }

    static void topic(Connection connection) throws Exception {
        Session session = auto(connection);
        Topic topic = session.createTopic(unique("jms.topic"));
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = auto(connection).createConsumer(topic);
        send(session, topic, "news");
        equal(text(first.receive(DEADLINE_MS)), "news");
        equal(text(second.receive(DEADLINE_MS)), "news");
        second.close();
        send(session, topic, "more");
        equal(text(first.receive(DEADLINE_MS)), "more");
        equal(auto(connection).createConsumer(topic).receive(NOTHING_MS), null);
    }

    static void topicWildcards(Connection connection) throws Exception {
        Session session = auto(connection);
        String stem = unique("stock");
        MessageConsumer all = session.createConsumer(session.createTopic(stem + ".#"));
        MessageConsumer one = session.createConsumer(session.createTopic(stem + ".*.price"));
        for (String name : List.of("abc.price", "abc.volume", "xyz.price")) send(session, session.createTopic(stem + "." + name), name);
        for (String name : List.of("abc.price", "abc.volume", "xyz.price")) equal(text(all.receive(DEADLINE_MS)), name);
        for (String name : List.of("abc.price", "xyz.price")) equal(text(one.receive(DEADLINE_MS)), name);
        equal(one.receive(NOTHING_MS), null);
    }

    static void durableSubscription(Connection connection) throws Exception {
        String name = unique("subscription");
        Session session = auto(connection);
        Topic topic = session.createTopic(unique("jms.topic"));
        TopicSubscriber subscriber = session.createDurableSubscriber(topic, name);
        subscriber.close();
        send(session, topic, "while away");
        TopicSubscriber back = session.createDurableSubscriber(topic, name);
        equal(text(back.receive(DEADLINE_MS)), "while away");
        back.close();
        session.unsubscribe(name);
    }

    /** A destination that is a plain AMQP queue, for programs that speak AMQP at the other end. */
    static void amqpDestination(Connection connection) throws Exception {
        String queue = unique("amqp");
        com.rabbitmq.client.ConnectionFactory plain = new com.rabbitmq.client.ConnectionFactory();
        plain.setUri(url);
        try (com.rabbitmq.client.Connection amqp = plain.newConnection()) {
            com.rabbitmq.client.Channel channel = amqp.createChannel();
            channel.queueDeclare(queue, false, false, false, null);
            Session session = auto(connection);
            send(session, new RMQDestination(queue, "", queue, null), "from jms");
            com.rabbitmq.client.GetResponse got = null;
            for (long until = System.currentTimeMillis() + DEADLINE_MS; got == null && System.currentTimeMillis() < until; )
                got = channel.basicGet(queue, true);
            equal(new String(got.getBody()), "from jms");
            channel.basicPublish("", queue, com.rabbitmq.client.MessageProperties.TEXT_PLAIN, "from amqp".getBytes());
            Message message = session.createConsumer(new RMQDestination(queue, null, null, queue)).receive(DEADLINE_MS);
            equal(message instanceof BytesMessage, true);
            equal(((BytesMessage) message).getBodyLength(), 9L);
            session.close();
            channel.queueDelete(queue);
        }
    }
}

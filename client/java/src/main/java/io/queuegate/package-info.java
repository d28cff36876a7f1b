/**
 * Checks with a queuegate server whether a user may use a queue, and why.
 *
 * <pre>{@code
 * try (Client client = Client.connect(ClientConfig.builder().address("127.0.0.1:50051").build())) {
 *   Decision decision = client.check(Check.of("sue", "root.analytics.reports"));
 *   System.out.println(decision.allowed() + " " + decision.reason());
 * }
 * }</pre>
 *
 * <p>A denial is a decision, not an error. Every error of a call is a {@link
 * io.queuegate.QueuegateException}, whose class says whether the request must change or a retry may
 * succeed; it never grants access.
 *
 * <p>A {@link io.queuegate.Gate} decides in the calling process, from a copy of the policy kept current by
 * the server.
 *
 * <p>Warnings are logged with {@code java.util.logging} by {@code io.queuegate.Client} and {@code
 * io.queuegate.Gate}. Messages of the contract are in {@code io.queuegate.v1}; package {@code
 * io.queuegate.internal} is not part of this API.
 */
package io.queuegate;

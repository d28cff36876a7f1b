/**
 * The state of gates and how they decide. Not part of the API.
 *
 * <p>{@code Partition}, {@code Names}, {@code Tables} and {@code Session} know no I/O, threads or clocks.
 */
package io.queuegate.internal;

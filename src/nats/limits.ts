/** Every limit of the engine, with its unit and reason. */
const mib = 1_048_576;

export const natsLimits = {
  /** How long an append may take: an election of the stream's leader takes 4 to 9 s. */
  appendMillis: 10_000,

  /**
   * How long a stream must remember ids at least: what a killed process, or one behind a cut
   * network, has written stays in the kernel for about 102 s, and may arrive then.
   */
  duplicateWindowMillisMin: 120_000,

  /** Appends that are not settled: a cluster that stalls must not fill the memory. */
  inFlightRecordsMax: 1_024,
  inFlightBytesMax: 16 * mib,

  /** From connecting to a host until it has taken the credentials, TLS included. */
  handshakeMillis: 2_000,

  /** How long appends wait for a connection before they are refused, as not stored. */
  unreachableMillis: 2_000,

  /** A message without a response for so long is sent again, if a later one has a response. */
  ackTimeoutMillis: 2_000,

  /**
   * After so long without an acknowledgement the session tries the next host. An isolated server
   * still responds to PING.
   */
  noProgressMillis: 4_000,

  /** While a connection is used, its stream and the servers are checked again after so long. */
  checkMillis: 10_000,

  /**
   * How long a first connection waits, twice, for other streams on the subject: one of a leaf node
   * may be farther away than the servers.
   */
  censusMillis: 500,

  /**
   * Problems that are remembered until plants are acknowledged again, so that each is reported
   * once: the texts of a server must not fill the memory or the log. Later ones are not reported.
   */
  problemsMax: 100,
  problemCharsMax: 4_096,

  /**
   * The slowest link that works, 1 MiB/s: the time that it takes to send what is in flight is
   * added.
   */
  bytesPerMilliMin: 1_048,

  /** A message whose response asks for it is sent again so long after it was sent. */
  retryMillis: 100,
  pingMillis: 2_000,
  pingsMissedMax: 3,

  /**
   * Pauses between rounds of all hosts double. Half of each is random: otherwise all clients of a
   * cluster that comes back would connect at the same instant.
   */
  reconnectMillisMin: 50,
  reconnectMillisMax: 2_000,

  /** A line of the protocol: the longest is a large cluster's INFO. */
  lineBytesMax: 65_536,

  /**
   * One message: a record of 1 MiB comes back as 1.4 MiB of base64. What does not end must not fill
   * the memory.
   */
  messageBytesMax: 8 * mib
} as const;

export type NatsLimits = { readonly [name in keyof typeof natsLimits]: number };

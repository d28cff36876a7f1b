// Asks whether a user may submit to a queue. Exit status 0: allowed, 1: denied, 2: wrong usage, 3: no
// answer, which must never be treated as permission.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const here = fileURLToPath(new URL('.', import.meta.url));

// `json` also decodes error details whose types are known.
const contract = loadSync(['queuegate/v1/access.proto', 'google/rpc/error_details.proto'], {
  includeDirs: [`${here}/../../proto`, here],
  defaults: true,
  enums: String,
  json: true,
  longs: Number,
});
const { AccessService } = grpc.loadPackageDefinition(contract).queuegate.v1;

const retries = {
  methodConfig: [
    {
      name: [{ service: 'queuegate.v1.AccessService' }],
      retryPolicy: {
        maxAttempts: 4,
        initialBackoff: '0.05s',
        maxBackoff: '0.5s',
        backoffMultiplier: 2,
        retryableStatusCodes: ['UNAVAILABLE', 'CANCELLED'],
      },
    },
  ],
};

function credentials({ QUEUEGATE_CA_FILE: caFile, QUEUEGATE_TOKEN_FILE: tokenFile }) {
  if (!caFile) return grpc.credentials.createInsecure();
  const tls = grpc.credentials.createSsl(readFileSync(caFile));
  if (!tokenFile) return tls;
  const bearer = grpc.credentials.createFromMetadataGenerator((_, done) => {
    // Read for each call, so that a new token is used at once.
    const metadata = new grpc.Metadata();
    metadata.set('authorization', `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`);
    done(null, metadata);
  });
  return grpc.credentials.combineChannelCredentials(tls, bearer);
}

// Returns the status, reason and message, and when to ask again if the server knows.
function explained(error) {
  const [bytes] = error.metadata.get('grpc-status-details-bin');
  const details = bytes ? contract['queuegate.v1.Status'].deserialize(bytes).details : [];
  const find = (name) => details.find((each) => each['@type']?.endsWith(`/google.rpc.${name}`));
  const reason = find('ErrorInfo')?.reason ?? 'no reason';
  const delay = find('RetryInfo')?.retryDelay;
  const later = delay ? `\nask again in ${Math.ceil(delay.seconds + delay.nanos / 1e9)} s` : '';
  return `${grpc.status[error.code]} (${reason}): ${error.details}${later}`;
}

// Returns the seconds that all attempts may take together.
function timeout({ QUEUEGATE_TIMEOUT: text = '1' }) {
  const seconds = Number(text);
  if (seconds > 0 && seconds < Infinity) return seconds;
  throw new Error(`QUEUEGATE_TIMEOUT must be a number of seconds, not "${text}"`);
}

// A program that asks more than once keeps the client.
function ask(address, user, queue, groups) {
  const client = new AccessService(address, credentials(process.env), {
    'grpc.service_config': JSON.stringify(retries),
    // Ignores proxy settings: the server is on this machine or network.
    'grpc.enable_http_proxy': 0,
  });
  const question = { user: { user, groups }, queue, access: 'ACCESS_TYPE_SUBMIT' };
  const deadline = Date.now() + timeout(process.env) * 1000;
  return new Promise((resolve, reject) => {
    client.checkQueueAccess(question, { deadline }, (error, answer) => {
      client.close();
      error ? reject(error) : resolve(answer);
    });
  });
}

const [address, user, queue, ...groups] = process.argv.slice(2);
if (queue === undefined) {
  console.error('usage: node check.js ADDRESS USER QUEUE [GROUP...]');
  process.exit(2);
}
try {
  const answer = await ask(address, user, queue, groups);
  console.log(`${answer.allowed ? 'allowed' : 'denied'}: ${answer.reason}`);
  process.exitCode = answer.allowed ? 0 : 1;
} catch (error) {
  console.error(error.metadata ? explained(error) : error.message);
  process.exitCode = 3;
}

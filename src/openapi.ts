/** The OpenAPI 3.1 description, built from the schemas, the catalogue and the route. */
import type { Limits } from "./config.ts";
import { catalogue, type Row } from "./http/errors.ts";
import { keyForm } from "./http/idempotency-key.ts";
import { plantsPath } from "./http/router.ts";
import { errorSchema, newPlantSchema, plantSchema } from "./plant.ts";

/**
 * Returns the description as a value for JSON.stringify.
 *
 * @param limits if its `keysBytesMax` is 0, the description does not list Idempotency-Key
 */
export function describeApi({ keysBytesMax }: Limits) {
  const keys = keysBytesMax === 0 ? undefined : keysDescription;
  const [, withId] = newPlantSchema.allOf;
  return {
    openapi: "3.1.0",
    info: {
      title: "Plant store",
      description:
        about + (keys?.retry ?? "A repeated request may store it twice."),

      // The version of the API, not the package's: it changes with the operations and objects alone.
      version: "1.0.0",
      license: { name: "MIT", identifier: "MIT" }
    },
    servers: [
      {
        url: "http://127.0.0.1:8080",
        description: "The default; a base path is appended to it"
      }
    ],
    security: [{ bearer: [] }],
    paths: { [plantsPath]: { post: createPlant(keys) } },
    components: {
      schemas: {
        Plant: plantSchema,
        NewPlant: { ...newPlantSchema, allOf: [reference("Plant"), withId] },
        Error: { ...errorSchema, examples: [exampleError] }
      },
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } }
    }
  };
}

/** Markdown, as every description. */
const about = `A 200 means that the plant is on stable storage.

An \`id\` is stored exactly. A client that reads numbers as doubles, as JavaScript does, rounds an
\`id\` beyond 2^53 before it sends it.

After no response, or error 50001 or 50302, it is unknown whether the plant was stored. `;

/** The parts of the description that are there if the store keeps keys. */
const keysDescription = {
  retry:
    "Repeat the request with the same Idempotency-Key, and it stores the plant once; without a " +
    "key it may store the plant twice.",
  parameters: [
    {
      name: "Idempotency-Key",
      in: "header",
      description:
        "Makes a retry safe: within a window of the newest records, requests with the same " +
        "token, key and plant store one record. A String of RFC 9651 of 1 to 255 characters, " +
        "or the same text without quotes, such as a UUID.",
      schema: { type: "string", pattern: keyForm.source }
    }
  ],
  headers: {
    "Idempotency-Replayed": {
      description: "The plant was stored by an earlier request with this key",
      schema: { type: "string", enum: ["true"] }
    }
  }
};

/** Returns the one operation. */
const createPlant = (keys?: typeof keysDescription) => ({
  operationId: "createPlant",
  summary: "Create a plant",
  parameters: keys?.parameters,
  requestBody: {
    required: true,
    content: contentOf("NewPlant", { id: exampleId, ...examplePlant })
  },
  responses: {
    200: {
      description: "The plant is on stable storage",
      headers: keys?.headers,
      content: contentOf("Plant", examplePlant)
    },
    ...errorResponses(keys === undefined ? causesOfKeys : [])
  }
});

/** Beyond 2^53, and even: a double is exact, so that tools show the number that stands here. */
const exampleId = 2 ** 53 + 2;
const examplePlant = { name: "Fern", tag: "shade" };
const exampleError = { error: 40102, message: "The bearer token is unknown." };

/** The causes that do not occur if the store keeps no keys. */
const causesOfKeys = ["idempotencyKey", "conflict"];

/** Returns a response for each status that has a cause: a list that names each of its causes. */
function errorResponses(absentCauses: readonly string[]) {
  const lists = new Map<number, string[]>();
  for (const [cause, [error, what]] of Object.entries<Row>(catalogue)) {
    if (absentCauses.includes(cause)) continue;
    const status = Math.floor(error / 100);
    const list = lists.get(status) ?? [];
    lists.set(status, [...list, `- ${error}: ${what}`]);
  }
  return Object.fromEntries(
    Array.from(lists, ([status, list]) => [
      status,
      { description: list.join("\n"), content: contentOf("Error") }
    ])
  );
}

/** Returns the content of every body: one JSON text. */
const contentOf = (schema: string, example?: object) => ({
  "application/json": { schema: reference(schema), example }
});

const reference = (schema: string) => ({
  $ref: `#/components/schemas/${schema}`
});

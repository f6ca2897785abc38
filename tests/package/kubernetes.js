/* kubernetes.js: reads Kubernetes objects as a JSON array from standard input, and validates each with the schema of its kind
 * (npm's kubernetes-models, made from Kubernetes' own OpenAPI document). Prints each problem; exits with 1 if there is one. */
"use strict";
const objects = JSON.parse(require("fs").readFileSync(0, "utf8"));
let failed = false;
for (const object of objects) {
  const name = `${object.kind} ${object.metadata.name}`, kinds = require(`kubernetes-models/${object.apiVersion}`);
  try {
    if (!kinds[object.kind]) throw new Error("unknown kind");
    new kinds[object.kind](object).validate();
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    failed = true;
  }
}
process.exit(failed ? 1 : 0);

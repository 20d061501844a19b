// A handler that does what handlers do, for the runner to practise on. No skill's call ever reaches it.
module.exports = async function (params, context) {
  const said = await context.exec(["practice", ...Object.keys(params)]);
  context.callLog.write({ said });
  console.log("practised %s", context.call.id, { said });
  return { success: true, result: [said] };
};

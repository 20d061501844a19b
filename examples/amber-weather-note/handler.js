// What a caller says about the weather, on its way to the operator: written down first, sent second.
module.exports = async function ({ place, weather }, context) {
  context.callLog.write({ type: "weather_note", place, weather });
  let sent = true;
  try {
    await context.gateway.sendMessage(`Weather in ${place}: ${weather}`);
  } catch (error) {
    sent = false;
    context.callLog.write({ type: "weather_note.not_sent", why: String(error) });
  }
  return { success: true, message: `Thank you, I have noted the weather in ${place}.`, result: { sent } };
};

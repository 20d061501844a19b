// A message is written down first and passed on second, so that none is lost. To whom it goes is not known here, and
// nothing in `params` could say it.

// Ends of a request after which the message may have arrived all the same.
const UNCERTAIN = ["TimedOut", "Unanswered", "BadAnswer"];
const LONGEST = { message: 1000, caller_name: 100, callback_number: 20 };

module.exports = async function sendMessage(params, context) {
  const note = noteFrom(params ?? {});
  if (note.message === "") {
    return {
      success: false,
      error: "the message is empty",
      message: "I did not hear what I should pass on. Would you say it once more?",
    };
  }
  try {
    await context.callLog.write({
      type: "skill.send_message",
      timestamp: now(),
      caller_name: note.caller_name || "Unknown",
      callback_number: note.callback_number || "Not provided",
      message: note.message,
      urgency: note.urgency,
      delivery_status: "pending",
    });
  } catch (failure) {
    return {
      success: false,
      error: `the message could not be written down: ${reason(failure)}`,
      message: "I am sorry, I cannot take messages at the moment. Please try again a little later.",
    };
  }
  const delivered = await passedOn(note, context);
  return { success: true, message: thanks(note, context), result: { logged: true, delivered } };
};

function noteFrom(params) {
  const note = { urgency: params.urgency === "urgent" ? "urgent" : "normal" };
  for (const [name, longest] of Object.entries(LONGEST)) {
    note[name] = plain(params[name], longest);
  }
  return note;
}

/** One line of visible text: line ends become blanks, so that words stay apart and nobody can add a line of ours. */
function plain(value, longest) {
  if (typeof value !== "string" && typeof value !== "number") return "";
  const line = String(value)
    .replace(/[\t\n\v\f\r\u0085\u2028\u2029]+/g, " ")
    .replace(/[\u0000-\u001f\u007f-\u009f]/g, "")
    .trim();
  return [...line].slice(0, longest).join("").trim();
}

async function passedOn(note, context) {
  try {
    await context.gateway.sendMessage(letter(note));
  } catch (failure) {
    const how = UNCERTAIN.includes(failure?.name) ? "delivery_unknown" : "delivery_failed";
    await remembered(context, { type: `skill.send_message.${how}`, [how]: true, error: reason(failure) });
    return false;
  }
  await remembered(context, { type: "skill.send_message.delivered" });
  return true;
}

function letter({ message, caller_name, callback_number, urgency }) {
  const head = [urgency === "urgent" ? "🚨 URGENT: a caller left a message" : "📞 A caller left a message"];
  if (caller_name) head.push(`Name: ${caller_name}`);
  if (callback_number) head.push(`Call back: ${callback_number}`);
  return `${head.join("\n")}\n\n${message}`;
}

/** How it went on is an addition to the log. The message itself is kept already, so a fault here is no failure. */
async function remembered(context, entry) {
  try {
    await context.callLog.write({ timestamp: now(), ...entry });
  } catch {
    // An entry left at "pending" says as much.
  }
}

function thanks({ caller_name }, context) {
  const operator = plain(context.operator?.name, LONGEST.caller_name) || "the operator";
  return `Thank you${caller_name ? `, ${caller_name}` : ""}. Your message is noted, and ${operator} will hear of it.`;
}

function now() {
  return new Date().toISOString();
}

function reason(failure) {
  return failure instanceof Error ? failure.message : String(failure);
}

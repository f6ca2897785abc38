package tarry;

/**
 * The broker's result for one operation. `outcome` is the effect, or the state that prevented the effect. `ok`: the operation took effect, in this request
 * or an earlier one.
 */
public record Result(String code, String outcome, long id, long dueMs, int deliveries, int attempt, String message) {
    static Result of(Wire.In in) {
        String code = Wire.code(in.number(Wire.OpResult.CODE)), message = in.text(Wire.OpResult.MESSAGE);
        return new Result(code, Wire.outcome(in.number(Wire.OpResult.OUTCOME)), in.number(Wire.OpResult.ID), in.number(Wire.OpResult.DUE_MS),
            (int) in.number(Wire.OpResult.DELIVERIES), (int) in.number(Wire.OpResult.ATTEMPT), message.isEmpty() ? code.toLowerCase() : message);
    }

    public boolean ok() {
        return code.equals("OK");
    }
}

# For classrooms and for a Space of sdk docker: docker build -t specviz . && docker run -p 7860:7860 specviz
#
# The base image is named by its tag alone. To build the same image again, put its digest behind it:
# FROM python:3.11-slim@sha256:…, as `docker buildx imagetools inspect python:3.11-slim` prints it.
FROM python:3.11-slim

# The process runs as `user`, who owns no file of the app and may change none: the program stays what
# it is whatever happens in the process. What it writes goes to its home and to /tmp.
RUN useradd --create-home --uid 1000 user
ENV HOME=/home/user PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOST=0.0.0.0 PORT=7860
# Whoever reaches the port may do what strangers may; -e SPECVIZ_PUBLIC=0 lets them load any model.
ENV SPECVIZ_PUBLIC=1
WORKDIR /app

# Dependencies first: this layer is rebuilt only when they change. The CPU index keeps gigabytes of
# CUDA libraries out; build with --build-arg TORCH_INDEX=https://pypi.org/simple for a GPU machine.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements.txt constraints.txt ./
RUN pip install --no-cache-dir torch==2.13.0 --index-url ${TORCH_INDEX} \
    && pip install --no-cache-dir -r requirements.txt -c constraints.txt

COPY app.py ./
COPY specviz ./specviz
COPY assets ./assets
COPY docs/sixty_lines.py docs/sixty_lines.toml ./docs/
COPY docs/exercises ./docs/exercises
RUN python -m compileall -q specviz && chmod -R a-w,a+rX /app

# The chat model, in the home of `user` as all downloads; without it the app starts on the bundled pair.
USER user
RUN python -m specviz models --get smollm2 || echo "built without the chat model"

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/health', timeout=4)"]
CMD ["python", "app.py"]
